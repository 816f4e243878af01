# SPDX-License-Identifier: MIT
"""Python's part of a submit: checks of arguments, calls of Python mappers, and the words of errors."""
