"""Scripts that make what the repository carries; none of them is part of the wheel."""
