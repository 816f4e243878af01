// SPDX-License-Identifier: MIT
#include <nanobind/nanobind.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "bindings.hpp"
#include "executor/core/processes/start_watch.hpp"
#include "seconds.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {

void bind_start_watch(nb::module_& m) {
	nb::class_<start_watch>(m, "StartWatch", R"(From now to the end of a context, this rank waits for the others to start.

A thread of its own says for which ranks of this host it waits, and ends the process with status 1 if one of them has ended or stands still for too long.)")
	    .def(
	        "__init__",
	        [](start_watch* const self, std::string rank_variable, const std::uint32_t rank, const std::uint32_t num_ranks, const bool is_one_host,
	            std::set<std::uint32_t> awaited, const double first_report_s, const double still_limit_s) {
		        start_watch_options options{std::move(rank_variable), rank, num_ranks, is_one_host, std::move(awaited)};
		        options.first_report = std::chrono::duration_cast<std::chrono::milliseconds>(to_nanoseconds(first_report_s));
		        options.still_limit = std::chrono::duration_cast<std::chrono::milliseconds>(to_nanoseconds(still_limit_s));
		        new(self) start_watch(std::move(options));
	        },
	        "rank_variable"_a, "rank"_a, "num_ranks"_a, "is_one_host"_a, "awaited"_a = std::set<std::uint32_t>{}, nb::kw_only(), "first_report_s"_a,
	        "still_limit_s"_a,
	        "`rank_variable`: of the environment, set by the launcher. `num_ranks`: 0 if it is not known. `awaited`: the ranks that have to come; empty for all. `still_limit_s`: 0 for none.")
	    .def(
	        "__enter__", [](const nb::object& self) { return self; }, nb::sig("def __enter__(self) -> StartWatch"))
	    .def("__exit__", [](start_watch& self, const nb::args&) { self.stop(); }, nb::sig("def __exit__(self, *exception: object) -> None"));
}

} // namespace celerity::native
