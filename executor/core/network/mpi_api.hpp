// SPDX-License-Identifier: MIT
// The functions of the MPI library that mpi4py uses in this process, for the ABI that mpi4py was compiled for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "scheduler/core/base/fields.hpp"

namespace celerity {

/// What mpi4py knows of its library. Addresses are those of handles in objects of mpi4py, which stay alive while the port is made.
struct mpi_settings {
	std::string module_path; ///< of the extension mpi4py.MPI, which is loaded
	std::size_t handle_bytes = 0; ///< 4: handles are integers; 8: pointers
	std::size_t status_bytes = 0;
	std::size_t largest_error_text = 0;
	int undefined = 0;
	std::uintptr_t communicator = 0; ///< of the run's own; it returns errors
	std::uintptr_t byte = 0; ///< datatypes
	std::uintptr_t word16 = 0;
	std::uintptr_t word32 = 0;
	std::uintptr_t word64 = 0;
	std::uint32_t rank = 0;
	std::uint32_t num_ranks = 0;
	int largest_tag = 0; ///< at least 3
	std::size_t largest_count = std::size_t(1) << 30; ///< more go through nested datatypes: MPI 3 counts with 32 bits
	std::size_t largest_small_bytes = 0; ///< see message_port; the same on all ranks
	CELERITY_FIELDS(module_path, handle_bytes, status_bytes, largest_error_text, undefined, communicator, byte, word16, word32, word64, rank, num_ranks,
	    largest_tag, largest_count, largest_small_bytes)
};

/// A table of functions and constants. `Handle` is `int` or `void*`. A status is opaque: memory of `status_bytes` each.
template <typename Handle>
struct mpi_api {
	static_assert(std::is_same_v<Handle, int> || std::is_same_v<Handle, void*>);
	using address_difference = std::intptr_t; ///< MPI_Aint in all three ABIs

	int (*isend)(const void*, int, Handle, int, int, Handle, Handle*) = nullptr;
	int (*irecv)(void*, int, Handle, int, int, Handle, Handle*) = nullptr;
	int (*recv_init)(void*, int, Handle, int, int, Handle, Handle*) = nullptr;
	int (*start)(Handle*) = nullptr;
	int (*test)(Handle*, int*, void*) = nullptr;
	int (*testsome)(int, Handle*, int*, int*, void*) = nullptr;
	int (*wait)(Handle*, void*) = nullptr;
	int (*cancel)(Handle*) = nullptr;
	int (*request_free)(Handle*) = nullptr;
	int (*ibarrier)(Handle, Handle*) = nullptr;
	int (*ialltoall)(const void*, int, Handle, void*, int, Handle, Handle, Handle*) = nullptr;
	int (*type_contiguous)(int, Handle, Handle*) = nullptr;
	int (*type_create_hvector)(int, int, address_difference, Handle, Handle*) = nullptr;
	int (*type_create_struct)(int, const int*, const address_difference*, const Handle*, Handle*) = nullptr;
	int (*type_commit)(Handle*) = nullptr;
	int (*type_free)(Handle*) = nullptr;
	int (*error_string)(int, char*, int*) = nullptr;

	Handle communicator{};
	std::array<Handle, 4> words{}; ///< unsigned integers of 1, 2, 4 and 8 bytes
	int undefined = 0;
	std::size_t status_bytes = 0;
	std::size_t largest_error_text = 0;

	/// Throws network_failure that names the missing functions, or says that the module is not loaded.
	explicit mpi_api(const mpi_settings& settings);

	/// Throws network_failure in the words of the library.
	void check(const int status, const char* const function) const {
		if(status != 0) fail(status, function); // MPI_SUCCESS is 0 in the standard
	}
	[[noreturn]] void fail(int status, const char* function) const;
};

} // namespace celerity
