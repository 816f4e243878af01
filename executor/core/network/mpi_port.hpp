// SPDX-License-Identifier: MIT
// The port over MPI.
#pragma once

#include <memory>

#include "message_port.hpp"
#include "mpi_api.hpp"

namespace celerity {

/// Posts the receives for pilots and notices. On all ranks of the communicator, which Python makes and frees. Throws network_failure if the library lacks
/// a function, and std::invalid_argument for handles of unknown size.
std::unique_ptr<message_port> make_mpi_port(const mpi_settings& settings);

} // namespace celerity
