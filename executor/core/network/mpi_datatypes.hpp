// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include "events/executor_events.hpp"
#include "mpi_api.hpp"
#include "strided_layout.hpp"

namespace celerity {

/// A buffer of MPI.
template <typename Handle>
struct mpi_buffer {
	void* address = nullptr;
	int count = 0;
	Handle datatype{};
};

/// Boxes as datatypes of MPI: nested strides from the first byte of the box. They depend neither on its position nor on the 32-bit limits of subarrays.
template <typename Handle>
class mpi_datatypes {
  public:
	/// `api` outlives this.
	mpi_datatypes(const mpi_api<Handle>& api, const std::size_t largest_count) : m_api(api), m_largest_count(largest_count) {}

	mpi_buffer<Handle> place(const payload& message);
	/// Forgets all datatypes. Operations under way keep theirs.
	void clear();

  private:
	const mpi_api<Handle>& m_api;
	const std::size_t m_largest_count;
	std::map<std::pair<std::size_t, strided_layout>, Handle> m_made; ///< by the position of the word in mpi_api::words, and the layout

	Handle make(std::size_t word, const strided_layout& layout) const;
	Handle make_run(std::size_t word, std::size_t count) const;
	Handle repeat(Handle repeated, std::size_t count, std::size_t stride_bytes) const;
	Handle contiguous(std::size_t count, Handle repeated) const;
	Handle strided(std::size_t count, std::size_t stride_bytes, Handle repeated) const;
	/// The second one lies `offset_bytes` behind the start of the first.
	Handle join(Handle first, std::size_t first_count, Handle second, std::size_t second_count, std::size_t offset_bytes) const;
	void free(Handle made) const;
};

} // namespace celerity
