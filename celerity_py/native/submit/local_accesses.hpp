// SPDX-License-Identifier: MIT
// What the chunks of this rank's devices access, for Python: the maker of fused kernels traces a function once for each.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "scheduler/core/geometry/user_boxes.hpp"
#include "scheduler/core/graphs/access_checks.hpp"

namespace celerity::native {

class local_accesses {
  public:
	local_accesses(std::vector<accessed_chunk>&& chunks, const int dims) : m_chunks(std::move(chunks)), m_dims(dims) {}

	/// Equal for equal chunks and regions.
	nanobind::bytes key() const {
		std::vector<std::int64_t> numbers;
		const auto add = [&](const box& b) {
			for(std::size_t d = 0; d < 3; ++d) {
				numbers.push_back(b.min(d));
				numbers.push_back(b.max(d));
			}
		};
		for(const auto& [chunk, regions] : m_chunks) {
			add(chunk);
			for(const auto& where : regions) {
				numbers.push_back(static_cast<std::int64_t>(where.r.boxes().size()));
				for(const box& b : where.r.boxes()) add(b);
			}
		}
		return nanobind::bytes(numbers.data(), numbers.size() * sizeof(std::int64_t));
	}

	std::vector<std::pair<user_box, std::vector<user_region>>> chunks() const {
		std::vector<std::pair<user_box, std::vector<user_region>>> result;
		for(const auto& [chunk, regions] : m_chunks) result.emplace_back(user_box{chunk, m_dims}, regions);
		return result;
	}

  private:
	std::vector<accessed_chunk> m_chunks;
	int m_dims;
};

} // namespace celerity::native
