# SPDX-License-Identifier: MIT
"""Answers the native submitter: checks the new parts of a call, and words the errors."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Sequence
from copy import copy
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast, get_args
from weakref import WeakKeyDictionary

from celerity_py import fused_functions
from celerity_py import hints as hint_resolution
from celerity_py._native import SPLITS, Box, Task
from celerity_py.calls.divided_calls import CheckedSubmission, KnownMappers
from celerity_py.calls.outer_variables import note_numbers, note_values, number_paths
from celerity_py.comparison.value_digests import digest_of_argument
from celerity_py.cuda.launches import LaunchPlan, prepare_launch
from celerity_py.executor.failures.user_frames import trim_frames
from celerity_py.fused_functions import FusedFunction
from celerity_py.fusion.plans import FusedPlans
from celerity_py.hints import Hint
from celerity_py.kernels import CudaKernel, Kernel, name_of
from celerity_py.reductions.ordered_reductions import finish_ordered, order_reductions
from celerity_py.reductions.partial_results import ReductionPort
from celerity_py.reductions.reduction import Reduction
from celerity_py.runtime.collective_groups import CollectiveGroup, CollectiveSubmission
from celerity_py.scheduler.errors import ArgumentTypeError, UsageError
from celerity_py.submit import fused_targets
from celerity_py.submit.arguments import (
    arities,
    check_kernel,
    check_launch,
    check_name,
    collect,
    refuse_host_combinations,
)
from celerity_py.submit.custom_mappers import resolve_custom
from celerity_py.submit.deep_halos import refuse_recompute
from celerity_py.submit.fused_forms import FusedForm
from celerity_py.submit.plain_values import PLAIN_TYPES
from celerity_py.submit.violations import explain
from celerity_py.vocabulary.accesses import Access
from celerity_py.vocabulary.index_spaces import NothingToDo, box_of, boxes, granularity_of
from celerity_py.vocabulary.integers import to_flag
from celerity_py.vocabulary.notation import printable
from celerity_py.vocabulary.static_types import HostTaskPlace
from celerity_py.vocabulary.submissions import Submission

if TYPE_CHECKING:
    from celerity_py._native import LocalAccesses
    from celerity_py.fusion.plans import Target
    from celerity_py.runtime.runtime import Runtime

_PLACES: Final = get_args(HostTaskPlace)
_SPLIT_AUTO: Final = SPLITS.index("split_auto")


def connect(runtime: Runtime) -> None:
    """Give the submitter of a runtime its delegate."""
    runtime.submitter.set_delegate(SubmitDelegate(runtime))


class SubmitDelegate:
    """Answers on the thread that submits, in the middle of its call. An exception ends the call: nothing is submitted.

    Attributes:
        runtime: The runtime of the ports.
        inside: Ids of threads that must not submit.
        is_cuda: Whether the devices are GPUs.
        boxes: shape -> index space, for shapes seen before.
        submission_class, hint_class: The types of submissions and hints.
        plain_types: See `plain_values.PLAIN_TYPES`.
        explain: See `violations.explain`.
        check_usable: See `Runtime.check_usable`.
        compares_values: Whether native code adds digests of plain arguments to kernels.
        note_outside: Keeps the values from outside that the function of a task uses.
        number_paths: What it knows of code objects. Native code does not call it where there is nothing to keep.
        digest_of: The digest of a plain argument that is neither a number nor a text.
        may_repeat: Whether native code may submit by itself a call like one that this delegate has checked.
    """

    boxes = boxes
    submission_class = Submission
    hint_class = Hint
    plain_types = PLAIN_TYPES
    explain = staticmethod(explain)
    digest_of = staticmethod(digest_of_argument)

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.inside = runtime.inside
        self.is_cuda = runtime.devices.is_cuda
        self.check_usable = runtime.check_usable
        self.may_repeat = runtime.call_checks is None
        self._fused_plans: WeakKeyDictionary[FusedFunction, FusedPlans] = WeakKeyDictionary()
        self.note_outside = note_numbers if runtime.call_checks is None else note_values
        self.number_paths = number_paths if runtime.call_checks is None else {}
        self.compares_values = runtime.size > 1 and runtime.call_checks is None

    @functools.cached_property
    def fused_target(self) -> Target | None:
        """The devices as fused kernels see them; None if nothing here compiles for them."""
        runtime, listing = self.runtime, fused_functions.LISTING
        if runtime.is_dry:
            return None if listing is None else fused_targets.find_dry(for_gpus=listing.for_gpus)
        return fused_targets.find(runtime.devices, runtime.drain)

    def plan_kernel(  # noqa: PLR0917 - those of parallel_for
        self,
        kernel: Any,
        shape: Any,
        args: tuple[Any, ...],
        name: str | None,
        hints: Sequence[Hint] | Hint,
        constrain: Any,
        frame: FrameType,
        known_space: Box | None,
    ) -> tuple[Submission, Task, list[Access]]:
        """Check a call of `parallel_for`, and make its submission and task.

        `known_space` is the index space if a task had this shape before.

        Returns:
            The submission; the task without name and accesses; and the accesses, whose mappers are native ones.

        Raises:
            UsageError: If something is wrong.
            NothingToDo: If the index space is empty.
        """
        runtime = self.runtime
        if kernel.__class__ is Kernel:
            function: Any = kernel.cuda if runtime.devices.is_cuda else kernel.cpu
            label = kernel.name  # printable
        else:
            function = kernel
            given = getattr(kernel, "name" if kernel.__class__ is FusedFunction else "__name__", "")
            label = given if given.__class__ is str and given else name_of(kernel)
            label = label if label.isprintable() else printable(label)  # a call costs more
        if name is not None:
            check_name(name)
            label = printable(name) if name else label
        is_native = function.__class__ is CudaKernel and runtime.devices.is_cuda
        fused = function if function.__class__ is FusedFunction else None
        function = function if fused is None else fused.function
        try:
            known = None if is_native else arities[id(function.__code__)]
            box = known_space if known is None or known[1:3] == (len(args), function.__class__) else None
        except (KeyError, TypeError, AttributeError):
            box = None
        if box is None:  # outside of the block above: its exceptions would become the context of errors
            box = check_launch(shape, kernel, function, len(args), label, is_native=is_native)
            if runtime.devices.is_cuda and not is_native:
                # On a launcher thread, the import would meet that of a library of CuPy by the application, and either
                # could see modules that are half imported.
                importlib.import_module("cupy")
        division = undivided = runtime.undivided
        if hints is not None and (hints.__class__ is not tuple or hints):
            division = hint_resolution.resolve(hints, undivided.oversubscribe, runtime.size, runtime.num_devices)
        granularity = None if constrain is None else granularity_of(constrain, box, f'kernel "{label}"')

        accesses, reductions, kept, is_custom = collect(args, runtime, f'kernel "{label}"')
        refuse_recompute(label, division.recompute, accesses, reductions)
        is_divisible = not (self.may_repeat or reductions or is_custom or division.split == _SPLIT_AUTO)
        submission = (Submission if self.may_repeat else CheckedSubmission)("kernel", label, function, kept, box, frame)
        submission.fused = fused
        if box is not known_space and not box:  # known ones are never empty
            raise NothingToDo(submission)
        if is_divisible:
            cast("CheckedSubmission", submission).known_mappers = KnownMappers.of(accesses, granularity)
        if is_native and reductions:
            refuse_host_combinations(submission)
            order_reductions(submission, args, reductions, frame)
        if reductions and runtime.reduce_kernels is not None:
            runtime.reduce_kernels.prepare(runtime.devices.ordinals, runtime.drain, reductions, division)
        task = Task.kernel(box, granularity, division, reductions, runtime.origins.of(submission))
        if is_custom:
            resolve_custom(runtime, submission, task, accesses)
        return submission, task, accesses

    def plan_host_task(  # noqa: PLR0917 - those of host_task
        self,
        fn: Any,
        args: tuple[Any, ...],
        on: Any,
        name: str | None,
        constrain: Any,
        unordered: Any,
        frame: FrameType,
    ) -> tuple[Submission, Task, list[Access]]:
        """Check a call of `host_task`, and make its submission and task, as `plan_kernel` does.

        Raises:
            UsageError: If something is wrong.
            NothingToDo: If the index space is empty.
        """
        runtime = self.runtime
        if name is not None:
            check_name(name)
        label = printable(name or name_of(fn))
        group = on if isinstance(on, CollectiveGroup) else None
        kind = "host task" if group is None else "collective host task"
        who = f'{kind} "{label}"'
        unordered = to_flag(unordered, f"{who}: unordered=")
        granularity = None
        objects: set[int] = set()
        if group is not None:
            distribution, box = "split", group.box
            objects.add(group.host_object)
        elif not isinstance(on, str):
            distribution, box = "split", box_of(on, who)
            granularity = None if constrain is None else granularity_of(constrain, box, who)
        elif on in _PLACES:
            distribution, box = on, Box((), ())
            if constrain is not None:
                raise UsageError(
                    f"{who}: constrain= divides an index space, but on={on!r} runs on one rank. Give the index space "
                    f"with on=, or leave constrain= out."
                )
        else:
            raise UsageError(
                f"{who}: on= takes 'once', 'master', or an index space to split among the ranks, not {on!r}."
            )
        check_kernel(fn, fn, len(args), label, kind)
        accesses, reductions, kept, is_custom = collect(args, runtime, who, objects)
        if reductions:
            reduction = next(arg for arg in args if isinstance(arg, Reduction))
            raise ArgumentTypeError(f"{who} got {reduction!r}, but only kernels can reduce. Use queue.parallel_for().")
        if group is None:
            submission = Submission(kind, label, fn, kept, box, frame)
        else:
            submission = CollectiveSubmission(kind, label, fn, kept, box, frame)
            submission.group = group
        if not box:
            raise NothingToDo(submission)
        origin = runtime.origins.of(submission)
        group_name = "" if group is None else repr(group.name)
        task = Task.host_task(box, distribution, unordered, granularity, sorted(objects), origin, group_name)
        if is_custom:
            resolve_custom(runtime, submission, task, accesses)
        return submission, task, accesses

    def prepare_launch(self, submission: Submission, known: LaunchPlan | None) -> tuple[LaunchPlan, bytes] | None:
        """See `launches.prepare_launch`."""
        return prepare_launch(self.runtime, submission, known)

    def prepare_fused(self, submission: Submission, local: LocalAccesses) -> tuple[Any, bytes] | None:
        """The plan of a fused function with its native launch, and the bytes of its scalars; None if Python runs it.

        With CHECK Python runs it, as the checks look at arrays, and compares some calls with the launch. In a dry run
        nobody runs it, and a plan is made for `celerity-py fuse` only.

        Raises:
            BaseException: Any exception of `FusedPlans.prepare`.
        """
        if self.fused_target is None:
            return None
        fused: FusedFunction = submission.fused
        plans = self._fused_plans.get(fused)
        if plans is None:
            plans = FusedPlans(fused.name, self.fused_target, self.inside, contracts=not fused.exact)
            self._fused_plans[fused] = plans
        try:
            plan = plans.prepare(submission, local)
        except BaseException as error:
            error.__traceback__ = trim_frames(error.__traceback__)  # the frames of tracing tell the user nothing
            raise
        fused.texts, fused.made, fused.why_not = plans.texts, plans.made, plans.why_not
        if plan is None or self.runtime.is_dry:
            return None
        for position in plan.combined:
            submission.args[position].has_combined = True
        scalars = plan.scalars.bytes_of(submission.args)
        if isinstance(submission, CheckedSubmission):
            submission.native_form = FusedForm(plan, scalars, is_exact=fused.exact)
            return None
        return plan, scalars

    def note_blocked(self, seconds: float) -> None:
        """Record that the program was too far ahead, and had to wait."""
        if self.runtime.tracer is not None:
            self.runtime.tracer.note_blocked(seconds)

    def note_reductions(self, submission: Submission, last_number: int, priority: int) -> None:
        """A kernel with reductions was submitted, which the task graph has numbered up to `last_number`."""
        self.runtime.empty_reductions.note(submission, last_number)
        finish_ordered(self.runtime, submission, priority)

    def renew(self, submission: Submission) -> Submission:
        """A copy of a kernel with reductions, for a replay: each submit notes by itself whether a chunk combines."""
        renewed = copy(submission)
        renewed.args = [arg.fresh() if arg.__class__ is ReductionPort else arg for arg in submission.args]
        return renewed

    def refuse_overtaken(self, submission: Submission) -> NoReturn:
        """Refuse a submit during which another thread has submitted, with several ranks.

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            f"{submission.describe()} was about to be submitted by the thread {threading.current_thread().name!r}, but "
            f"another thread submitted at the same time. All {self.runtime.size} ranks must submit in the same order, "
            f"which threads that race do not have. Submit from one thread, or one after the other. Nothing was "
            f"submitted."
        )
