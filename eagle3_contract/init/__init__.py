"""``contract init``: what a training run left behind, collected, held against each other, and written as a contract."""
