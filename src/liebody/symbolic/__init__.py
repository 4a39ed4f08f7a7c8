"""Closed forms: the equations of motion of a mechanism in SymPy, to read, to print and to generate code.

equations         the calls: `equations` of a robot, `shortest` form of an expression
from_robot        numbers of a robot become symbols, its coordinates get names
derivation        an algorithm is traced, and its graph becomes expressions
parts             M, C, g, energies and results of other algorithms, when they are asked for
closed_forms      `Equations`: the parts, and how they are written
block_equations   the equations in named matrices: written, and compared with those in scalars
block_forms       M, C, g of trees in named matrices
block_algebra     sums, products and block matrices of names
block_pages       how these are written: LaTeX, text
floating          curvature of the mechanical connection, angle of the locked frame
rigid_body        one body: equations of Lagrange and of Boltzmann and Hamel in symbols
polynomials       the normal form: quotients of polynomials in sines, cosines and parameters
angle_forms       short expressions of functions of the angles
short_forms       `Ring`: short expressions of all quotients
parameters        symbols in place of numbers of a tree
numbers           decimals as exact numbers, and back to readable ones
sources           code in Python, C, MATLAB and Julia

SymPy is imported by the first call of `equations`: pip install sympy.
"""

from .equations import equations, shortest

__all__ = ["equations", "shortest"]
