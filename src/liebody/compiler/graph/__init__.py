"""The expression graph of a trace, and its derivatives."""
