// SPDX-License-Identifier: MIT
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "bindings.hpp"
#include "named_tuple.hpp"
#include "scheduler/core/graphs/program_log.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {

void bind_program_log(nb::module_& m) {
	named_tuple<program_log::divergence>::bind(m, "ProgramDivergence", "The first rank whose program is known to differ, at or before that entry.");
	named_tuple<program_log::description>::bind(m, "ProgramEntry", "A buffer or task: the number of the line that submitted it, and (aspect, text) each.");
	nb::class_<program_log>(m, "ProgramLog",
	    "The buffers and tasks of this rank in program order, as digests that the ranks compare. A Scheduler adds entries; any thread may call the methods.")
	    .def(nb::init<std::size_t>(), "num_ranks"_a)
	    .def_prop_ro(
	        "latest",
	        [](const program_log& self) {
		        const auto position = self.latest();
		        return nb::make_tuple(position.entries, position.digest);
	        },
	        nb::sig("def latest(self) -> tuple[int, int]"), "(number of entries, digest of all of them)")
	    .def_prop_ro("oldest", &program_log::oldest, "The first entry that can still be compared.")
	    .def("digests", &program_log::digests, "first"_a, "stride"_a, "count"_a,
	        "Digests up to the entries `first`, `first + stride`, ..., at most `count`, and none behind the latest entry.")
	    .def(
	        "compare",
	        [](program_log& self, const std::uint32_t peer, const std::uint64_t entries, const std::uint64_t digest) {
		        return self.compare(rank_id(peer), {entries, digest}) != program_log::verdict::different;
	        },
	        "peer"_a, "entries"_a, "digest"_a,
	        "Compare with the claim of another rank. False if the programs differ. Entries that this rank has not come to yet are compared when it does.")
	    .def_prop_ro("has_diverged", &program_log::has_diverged, "Whether the program of some rank is known to differ.")
	    .def_prop_ro(
	        "divergence", [](const program_log& self) { return to_named(self.first_divergence()); },
	        nb::sig("def divergence(self) -> ProgramDivergence | None"))
	    .def(
	        "describe", [](const program_log& self, const std::uint64_t entry) { return to_named(self.describe(entry)); }, "entry"_a,
	        nb::sig("def describe(self, entry: int) -> ProgramEntry | None"), "None if the entry is too old, or still to come.");
}

} // namespace celerity::native
