# SPDX-License-Identifier: MIT
"""The deliberate mistakes of `make mutants` still apply to the sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.mutation import Mutation
from tests.mutants.mutations import MUTATIONS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name.replace(" ", "_"))
def test_the_text_that_a_mutation_replaces_occurs_exactly_once(mutation: Mutation) -> None:
    source = (ROOT / mutation.file).read_text()
    assert mutation.apply(source) != source
