"""The command line: parse, build a request, let the kind execute it, render. A file per command."""
