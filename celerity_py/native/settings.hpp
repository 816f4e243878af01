// SPDX-License-Identifier: MIT
// Structs that Python sets field by field.
#pragma once

#include <nanobind/nanobind.h>

namespace celerity::native {

/// Fields are keywords of the constructor, too; one that is unknown is an AttributeError.
template <typename Settings>
void bind_keywords(nanobind::class_<Settings>& settings) {
	settings.def(
	    "__init__",
	    [](Settings* const self, const nanobind::kwargs& fields) {
		    nanobind::object made = nanobind::cast(Settings());
		    for(const auto& [name, value] : fields) nanobind::setattr(made, name, value);
		    new(self) Settings(nanobind::cast<Settings&>(made));
	    },
	    nanobind::sig("def __init__(self, **fields: typing.Any) -> None"));
}

} // namespace celerity::native
