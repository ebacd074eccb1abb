"""The list of all files in ARCHITECTURE.md, made from what each file says of itself in its first sentence.

``python tests/file_list.py`` writes it anew; ``test_architecture.py`` fails where the list and the files differ.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
HEADING = "## Every file\n"


def purpose(path: Path) -> str:
    """The first sentence of the comment or docstring that a file begins with; empty if it begins with neither."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return (ast.get_docstring(ast.parse(text)) or "").split("\n")[0]
    comment = re.match(r"(?://[^\n]*\n)*", text)
    assert comment is not None
    words = " ".join(line.removeprefix("//").strip() for line in comment[0].split("\n//\n")[0].splitlines())
    sentence = re.match(r".+?[.?!](?= |$)", words)
    return sentence[0] if sentence is not None else ""


def folders(root: Path) -> list[tuple[str, list[Path]]]:
    """(folder, its source files) below the package and the native code, in the order of their names."""
    found: dict[str, list[Path]] = {}
    for base, patterns in (("src/sharpdnf", ["*.py"]), ("native", ["*.hpp", "*.cpp"])):
        for path in sorted(path for pattern in patterns for path in (root / base).rglob(pattern)):
            found.setdefault(path.parent.relative_to(root).as_posix(), []).append(path)
    return sorted(found.items(), key=lambda entry: (entry[0].startswith("native"), entry[0]))


def listing(root: Path = ROOT) -> str:
    """The list as Markdown: a heading for each folder, a line for each file."""
    parts = [HEADING]
    for folder, files in folders(root):
        parts.append(f"\n### {folder}\n\n")
        parts += [f"- `{path.name}`: {purpose(path)}\n" for path in files if path.name != "__main__.py"]
    return "".join(parts)


def rewritten(text: str, root: Path = ROOT) -> str:
    """ARCHITECTURE.md with the list as it has to be."""
    return text.split(HEADING, maxsplit=1)[0].rstrip() + "\n\n" + listing(root)


if __name__ == "__main__":
    ARCHITECTURE.write_text(rewritten(ARCHITECTURE.read_text(encoding="utf-8")), encoding="utf-8")
