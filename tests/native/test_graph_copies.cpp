// SPDX-License-Identifier: MIT
// Random kernels and gathers of several devices, which read and write each other's memory, divided into graphs. All values are those of the operations one after
// the other, whichever flags are up first.
// Arguments: [rounds] [seed]
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_graph_parts.hpp"
#include "check.hpp"
#include "scheduler/core/base/transitive_order.hpp"

using namespace celerity;

namespace {

constexpr std::size_t num_cells = 6;
using cells = std::array<std::uint32_t, num_cells>; // of a device
using memories = std::vector<cells>;

/// Each device has an array of cells.
struct program {
	struct accesses {
		std::size_t first = 0, last = 0;
		bool includes(const std::size_t cell) const { return first <= cell && cell < last; }
	};
	std::vector<graph_operation> operations;
	std::vector<accesses> read, written; ///< of kernels
	std::deque<box> boxes;
};

const box all_cells = box::full(point{{num_cells, 1, 1}});

std::byte* address_of(const device_id device) { return reinterpret_cast<std::byte*>(std::uintptr_t{device.value} * 4096 + 4096); }
std::size_t device_at(const array_place& place) { return reinterpret_cast<std::uintptr_t>(place.address) / 4096 - 1; }

program::accesses some_cells(std::mt19937& random) {
	const auto first = random() % num_cells;
	return {first, first + 1 + random() % (num_cells - first)};
}

/// The edges between operations are those of their accesses, without the ones that others imply.
program make_program(std::mt19937& random, const std::uint32_t num_devices) {
	struct history {
		std::optional<std::uint32_t> writer;
		std::vector<std::uint32_t> readers;
	};
	std::vector<std::array<history, num_cells>> histories(num_devices);
	transitive_order order;
	program made;
	made.operations.resize(2 + random() % 30);
	made.read.resize(made.operations.size());
	made.written.resize(made.operations.size());
	for(std::uint32_t i = 0; i < made.operations.size(); ++i) {
		auto& operation = made.operations[i];
		operation.device = device_id(static_cast<std::uint32_t>(random() % num_devices));
		std::vector<std::uint32_t> before;
		std::vector<std::pair<history*, bool>> touched; // and whether it is written
		const auto touch = [&](const std::size_t device, const program::accesses& where, const bool is_written) {
			for(std::size_t cell = where.first; cell < where.last; ++cell) {
				auto& seen = histories[device][cell];
				touched.emplace_back(&seen, is_written);
				if(seen.writer.has_value()) before.push_back(*seen.writer);
				if(is_written) before.insert(before.end(), seen.readers.begin(), seen.readers.end());
			}
		};
		if(num_devices == 1 || random() % 2 == 0) {
			operation.what = reduce_operation{.count = i};
			touch(operation.device.value, made.read[i] = some_cells(random), false);
			touch(operation.device.value, made.written[i] = some_cells(random), true);
		} else {
			std::vector<copy_operation> copies;
			std::vector<std::uint32_t> others;
			for(std::uint32_t other = 0; other < num_devices; ++other) {
				if(other != operation.device.value) others.push_back(other);
			}
			std::shuffle(others.begin(), others.end(), random);
			std::size_t first = random() % 3;
			for(const auto other : others) {
				const std::size_t last = first + 1 + random() % 2;
				if(last > num_cells) break;
				const auto& where = made.boxes.emplace_back(point{{static_cast<coordinate>(first), 0, 0}}, point{{static_cast<coordinate>(last), 1, 1}});
				copies.push_back({{address_of(device_id(other)), &all_cells}, {address_of(operation.device), &all_cells}, {&where, 1}, 4, i});
				operation.origins.push_back(memory_of(device_id(other)));
				touch(other, {first, last}, false);
				touch(operation.device.value, {first, last}, true);
				first = last + random() % 2;
			}
			operation.what = std::move(copies);
		}
		for(const auto earlier : order.latest_of(before)) operation.after.push_back(earlier);
		std::sort(operation.after.begin(), operation.after.end());
		order.add(before);
		for(const auto& [seen, is_written] : touched) {
			if(is_written) *seen = {i, {}};
		}
		for(const auto& [seen, is_written] : touched) {
			if(!is_written) seen->readers.push_back(i);
		}
	}
	return made;
}

void run_kernel(const program& given, const std::size_t number, memories& values) {
	auto& own = values[given.operations[number].device.value];
	std::uint32_t result = static_cast<std::uint32_t>(number) + 1;
	for(std::size_t cell = given.read[number].first; cell < given.read[number].last; ++cell) result = result * 1'000'003 + own[cell];
	for(std::size_t cell = given.written[number].first; cell < given.written[number].last; ++cell) own[cell] = result + static_cast<std::uint32_t>(cell);
}

std::vector<std::uint32_t> load(const copy_operation& copy, const memories& values) {
	const auto& from = values[device_at(copy.source)];
	const auto& where = copy.boxes.front();
	return {from.begin() + where.min(0), from.begin() + where.max(0)};
}
void store(const copy_operation& copy, const std::vector<std::uint32_t>& data, memories& values) {
	std::copy(data.begin(), data.end(), values[device_at(copy.destination)].begin() + copy.boxes.front().min(0));
}

memories run_in_order(const program& given, memories values) {
	for(std::size_t i = 0; i < given.operations.size(); ++i) {
		const auto copies = copies_of(given.operations[i].what);
		if(copies.empty() && std::holds_alternative<reduce_operation>(given.operations[i].what)) run_kernel(given, i, values);
		std::vector<std::vector<std::uint32_t>> data; // no copy of a gather reads what another one writes
		for(const auto& copy : copies) data.push_back(load(copy, values));
		for(std::size_t k = 0; k < copies.size(); ++k) store(copies[k], data[k], values);
	}
	return values;
}

/// All devices together.
struct machine {
	const program& given;
	memories values;
	std::set<std::pair<device_id, std::uint32_t>> raised{};
	std::map<std::pair<device_id, std::uint64_t>, std::vector<std::uint32_t>> inboxes{}; ///< by device and place
};

class device {
  public:
	explicit device(const cuda_graph_part& part) : m_part(part), m_states(part.nodes.size()) {}

	bool is_done() const {
		return std::all_of(m_states.begin(), m_states.end(), [](const node_state& state) { return state.is_done; });
	}

	/// One step of a node that may run. Any number of nodes run at the same time. Returns whether anything has happened.
	bool advance(std::mt19937& random, machine& all) {
		std::vector<std::size_t> running;
		for(std::size_t i = 0; i < m_states.size(); ++i) {
			const auto& after = m_part.nodes[i].after;
			if(!m_states[i].is_done && std::all_of(after.begin(), after.end(), [&](const auto n) { return m_states[n].is_done; })) running.push_back(i);
		}
		return !running.empty() && advance(m_part.nodes[running[random() % running.size()]], random, all);
	}

  private:
	struct node_state {
		bool has_begun = false, is_done = false;
		std::vector<bool> copied{};
	};
	const cuda_graph_part& m_part;
	std::vector<node_state> m_states;

	bool is_up(const std::uint32_t flag, const machine& all) const { return all.raised.contains({m_part.words.at(flag).device, m_part.words.at(flag).number}); }

	bool advance(const cuda_graph_node& node, std::mt19937& random, machine& all) {
		auto& state = m_states[static_cast<std::size_t>(&node - m_part.nodes.data())];
		const auto copies = node.what.has_value() ? copies_of(*node.what) : std::span<const copy_operation>();
		if(!std::exchange(state.has_begun, true)) {
			state.copied.assign(copies.size(), false);
			for(const auto& put : node.puts) { all.inboxes[{m_part.words.at(put.flag).device, put.inbox.address}] = load(put.copy, all.values); }
			for(const auto flag : node.raised) all.raised.emplace(m_part.words.at(flag).device, m_part.words.at(flag).number);
			return true;
		}
		const auto are_up = [&](const std::vector<std::uint32_t>& flags) {
			return std::all_of(flags.begin(), flags.end(), [&](const auto flag) { return is_up(flag, all); });
		};
		if(!are_up(node.awaited)) return false;
		std::vector<std::size_t> ready;
		for(std::size_t k = 0; k < copies.size(); ++k) {
			const bool has_flag = k < node.arrivals.size() && node.arrivals[k].flag.has_value();
			if(!state.copied[k] && (!has_flag || is_up(*node.arrivals[k].flag, all))) ready.push_back(k);
		}
		if(!ready.empty()) {
			const auto k = ready[random() % ready.size()];
			const bool has_inbox = k < node.arrivals.size() && node.arrivals[k].inbox.has_value();
			const bool takes = has_inbox && random() % 2 == 0; // otherwise the flag is seen first
			store(copies[k], takes ? all.inboxes.at({m_part.device, node.arrivals[k].inbox->address}) : load(copies[k], all.values), all.values);
			num_taken += takes ? 1 : 0;
			state.copied[k] = true;
			return true;
		}
		if(!std::all_of(state.copied.begin(), state.copied.end(), [](const bool is) { return is; }) || !are_up(node.awaited_by_end)) return false;
		if(node.what.has_value() && std::holds_alternative<reduce_operation>(*node.what)) {
			run_kernel(all.given, std::get<reduce_operation>(*node.what).count, all.values);
		}
		return state.is_done = true;
	}

  public:
	static inline std::size_t num_taken = 0;
};

void run_round(std::mt19937& random) {
	const auto num_devices = static_cast<std::uint32_t>(2 + random() % 4);
	const auto given = make_program(random, num_devices);
	const auto parts = part_by_device(given.operations, 0, [&](const auto& what) { return !std::holds_alternative<reduce_operation>(what); });
	memories first(num_devices);
	for(auto& own : first) {
		for(auto& value : own) value = static_cast<std::uint32_t>(random());
	}
	machine all{given, first};
	std::vector<device> devices(parts.begin(), parts.end());
	const auto is_done = [](const device& d) { return d.is_done(); };
	for(std::size_t num_idle = 0; !std::all_of(devices.begin(), devices.end(), is_done);) {
		num_idle = devices[random() % devices.size()].advance(random, all) ? 0 : num_idle + 1;
		check(num_idle < 10'000, "no device waits for ever");
	}
	check(all.values == run_in_order(given, first), "all values are those of the operations one after the other");
}

} // namespace

int main(const int argc, const char** const argv) {
	const auto seed = argc > 2 ? static_cast<std::uint32_t>(std::atoi(argv[2])) : 1;
	const int rounds = argc > 1 ? std::atoi(argv[1]) : 3000;
	std::mt19937 random(seed);
	for(int i = 0; i < rounds; ++i) run_round(random);
	check(device::num_taken > static_cast<std::size_t>(rounds) / 4, "data comes through inboxes");
	std::printf("%d graphs of several devices copy what they should, %zu times out of inboxes\n", rounds, device::num_taken);
	return 0;
}
