"""The precision in which tests compute with Arb."""

import pytest


def arb_digits(bits, cap=None):
    """A fixture for all tests of a module: so many bits, and series of at most `cap` coefficients."""

    @pytest.fixture(autouse=True)
    def digits():
        from flint import ctx

        before = ctx.prec, ctx.cap
        ctx.prec, ctx.cap = bits, cap or ctx.cap
        yield
        ctx.prec, ctx.cap = before

    return digits
