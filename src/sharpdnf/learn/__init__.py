"""The neural counter: formulas and labels in, a trained network out, and what asks it. Needs the extra [neural]."""
