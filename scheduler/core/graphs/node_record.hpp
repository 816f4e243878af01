// SPDX-License-Identifier: MIT
// Accesses of tasks and commands to buffers, and the records of nodes that tests read.
#pragma once

#include <utility>
#include <vector>

#include "base/ids.hpp"
#include "dependency_window.hpp"
#include "geometry/grid.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// The part of a buffer that a node accesses. `Buffer` is the state of a buffer in one of the graphs, with a member `info`.
template <typename Buffer>
struct tracked_access {
	Buffer* buffer;
	access_mode mode;
	region where;
};

/// A node with its edges and accesses.
template <typename Node, typename Id>
struct node_record {
	Node node;
	std::vector<std::pair<Id, dependency_kind>> dependencies;
	std::vector<std::pair<buffer_id, region>> reads;
	std::vector<std::pair<buffer_id, region>> writes;

	/// Of the node under construction in `window`.
	template <typename Accesses>
	node_record(Node recorded, const dependency_window<Id>& window, const Accesses& accesses) : node(std::move(recorded)) {
		for(std::size_t i = 0; i < window.edges().size(); ++i) dependencies.emplace_back(window.edges()[i], window.kinds()[i]);
		for(const auto& access : accesses) {
			if(is_consumer(access.mode)) reads.emplace_back(access.buffer->info.id, access.where);
			if(is_producer(access.mode)) writes.emplace_back(access.buffer->info.id, access.where);
		}
	}
};

} // namespace celerity
