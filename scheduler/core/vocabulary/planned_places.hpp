// SPDX-License-Identifier: MIT
#pragma once

#include <vector>

#include "base/ids.hpp"
#include "geometry/grid.hpp"

namespace celerity {

/// Where the newest value of some elements of a buffer lies, once all that is planned has been executed.
struct planned_place {
	box where;
	allocation_id allocation; ///< null: nobody has called the function for the initial contents yet
};

/// Elements without a place have never been written.
struct planned_places {
	box domain; ///< the whole buffer
	std::vector<planned_place> places;
};

} // namespace celerity
