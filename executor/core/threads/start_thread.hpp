// SPDX-License-Identifier: MIT
#pragma once

#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace celerity {

/// Throws std::runtime_error with a remedy if the system has no thread left. `purpose`: "for the copies of a device".
template <typename Body>
std::thread start_thread(const std::string& purpose, Body&& body) {
	try {
		return std::thread(std::forward<Body>(body));
	} catch(const std::system_error& error) {
		throw std::runtime_error("no thread can be started " + purpose + " (" + error.what()
		                         + "): raise the limits of processes (ulimit -u), of memory (ulimit -v), and of the container (pids.max)");
	}
}

} // namespace celerity
