"""``python -m sharpdnf.cli``, and ``torchrun -m sharpdnf.cli`` for training with several processes."""

from sharpdnf.cli import main

if __name__ == "__main__":
    main()
