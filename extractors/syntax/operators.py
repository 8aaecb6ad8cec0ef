"""Operators of libcst and of `ast`, side by side."""

from __future__ import annotations

import ast

import libcst as cst

UNARY: dict[type[cst.BaseUnaryOp], type[ast.unaryop]] = {
    cst.Plus: ast.UAdd,
    cst.Minus: ast.USub,
    cst.BitInvert: ast.Invert,
    cst.Not: ast.Not,
}
BOOLEAN: dict[type[cst.BaseBooleanOp], type[ast.boolop]] = {cst.And: ast.And, cst.Or: ast.Or}
BINARY: dict[type[cst.BaseBinaryOp], type[ast.operator]] = {
    cst.Add: ast.Add,
    cst.Subtract: ast.Sub,
    cst.Multiply: ast.Mult,
    cst.Divide: ast.Div,
    cst.FloorDivide: ast.FloorDiv,
    cst.Modulo: ast.Mod,
    cst.Power: ast.Pow,
    cst.LeftShift: ast.LShift,
    cst.RightShift: ast.RShift,
    cst.BitOr: ast.BitOr,
    cst.BitAnd: ast.BitAnd,
    cst.BitXor: ast.BitXor,
    cst.MatrixMultiply: ast.MatMult,
}
AUGMENTED: dict[type[cst.BaseAugOp], type[ast.operator]] = {
    cst.AddAssign: ast.Add,
    cst.SubtractAssign: ast.Sub,
    cst.MultiplyAssign: ast.Mult,
    cst.DivideAssign: ast.Div,
    cst.FloorDivideAssign: ast.FloorDiv,
    cst.ModuloAssign: ast.Mod,
    cst.PowerAssign: ast.Pow,
    cst.LeftShiftAssign: ast.LShift,
    cst.RightShiftAssign: ast.RShift,
    cst.BitOrAssign: ast.BitOr,
    cst.BitAndAssign: ast.BitAnd,
    cst.BitXorAssign: ast.BitXor,
    cst.MatrixMultiplyAssign: ast.MatMult,
}
COMPARISON: dict[type[cst.BaseCompOp], type[ast.cmpop]] = {
    cst.LessThan: ast.Lt,
    cst.LessThanEqual: ast.LtE,
    cst.GreaterThan: ast.Gt,
    cst.GreaterThanEqual: ast.GtE,
    cst.Equal: ast.Eq,
    cst.NotEqual: ast.NotEq,
    cst.In: ast.In,
    cst.NotIn: ast.NotIn,
    cst.Is: ast.Is,
    cst.IsNot: ast.IsNot,
}
