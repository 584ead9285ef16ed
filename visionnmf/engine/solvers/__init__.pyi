from .table import SOLVERS as SOLVERS, Solver as Solver, check_solver as check_solver, choose as choose
