# SPDX-License-Identifier: MIT
"""All mutants of `make mutants`."""

from __future__ import annotations

from tests.mutants.executor_mutations import EXECUTOR_MUTATIONS
from tests.mutants.scheduler_mutations import SCHEDULER_MUTATIONS

MUTATIONS = (*SCHEDULER_MUTATIONS, *EXECUTOR_MUTATIONS)
