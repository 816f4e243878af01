// SPDX-License-Identifier: MIT
// Random operations of several devices, divided into graphs. Each device carries out its nodes in any order that the edges allow. A node that waits holds all
// others of its device up. All operations run, each after those that it depends on.
// Arguments: [rounds] [seed]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_graph_parts.hpp"
#include "check.hpp"

using namespace celerity;

namespace {

const box one_element = box::full(point{{1, 1, 1}}), too_many_elements = box::full(point{{1 << 20, 1, 1}});

std::byte* address_in(const memory_id memory) { return reinterpret_cast<std::byte*>(std::uintptr_t{memory.value}); }

/// The number of an operation is the size of its copies. It copies from some of the devices whose operations it depends on, and from its own.
std::vector<graph_operation> make_operations(std::mt19937& random, const std::size_t num_devices) {
	std::vector<graph_operation> operations(1 + random() % 60);
	const std::size_t most_edges = 1 + random() % 12;
	for(std::uint32_t i = 0; i < operations.size(); ++i) {
		operations[i].device = device_id(static_cast<std::uint32_t>(random() % num_devices));
		operations[i].is_urgent = random() % 3 == 0;
		for(std::size_t edge = 0; i > 0 && edge < random() % (most_edges + 1); ++edge) {
			const auto earlier = static_cast<std::uint32_t>(random() % i);
			auto& after = operations[i].after;
			if(std::find(after.begin(), after.end(), earlier) == after.end()) after.push_back(earlier);
		}
		auto& origins = operations[i].origins;
		for(const auto earlier : operations[i].after) {
			const auto origin = memory_of(operations[earlier].device);
			if(random() % 3 != 0 && std::find(origins.begin(), origins.end(), origin) == origins.end()) origins.push_back(origin);
		}
		if(origins.empty() || random() % 4 == 0) origins.push_back(memory_of(operations[i].device));
		std::shuffle(origins.begin(), origins.end(), random);
		std::vector<copy_operation> copies(origins.size());
		for(std::size_t k = 0; k < copies.size(); ++k) {
			const box& moved = random() % 4 == 0 ? too_many_elements : one_element;
			copies[k] = {{address_in(origins[k]), &moved}, {nullptr, &moved}, {&moved, 1}, random() % 4 == 0 ? 2U : 4U, i};
		}
		if(random() % 2 == 0) {
			operations[i].what = std::move(copies);
		} else {
			origins.clear();
			operations[i].what = reduce_operation{.count = i};
		}
	}
	return operations;
}

std::size_t number_of(const decltype(graph_operation::what)& what) {
	const auto copies = copies_of(what);
	return copies.empty() ? std::get<reduce_operation>(what).count : copies.front().size_bytes;
}

/// By device and place: the copy whose data is there.
using inboxes = std::map<std::pair<device_id, std::uint64_t>, const copy_operation*>;

bool is_same(const copy_operation& a, const copy_operation& b) { return a.size_bytes == b.size_bytes && a.source.address == b.source.address; }

class device {
  public:
	explicit device(const cuda_graph_part& part) : m_part(part), m_is_done(part.nodes.size()) {}

	bool is_done() const { return m_num_done == m_part.nodes.size(); }
	/// Chooses a node whose edges allow it, and stays with it until its flags are up. Returns whether anything has happened.
	bool advance(std::mt19937& random, std::map<std::pair<device_id, std::uint32_t>, bool>& flags, inboxes& arrived, const auto& run) {
		if(is_done()) return false;
		bool has_begun = false;
		if(m_current == nullptr) {
			std::vector<std::size_t> ready;
			for(std::size_t i = 0; i < m_part.nodes.size(); ++i) {
				const auto& after = m_part.nodes[i].after;
				if(!m_is_done[i] && std::all_of(after.begin(), after.end(), [&](const std::uint32_t n) { return bool{m_is_done[n]}; })) ready.push_back(i);
			}
			m_place = ready.at(random() % ready.size());
			m_current = &m_part.nodes[m_place];
			check(m_current->raised.size() <= max_small_copies && m_current->awaited.size() <= max_small_copies, "a kernel has slots");
			for(const auto flag : m_current->raised) {
				const auto& word = m_part.words.at(flag);
				check(word.device != m_part.device, "a device raises flags in the memory of others");
				check(!std::exchange(flags[{word.device, word.number}], true), "a flag is raised once");
			}
			for(const auto& put : m_current->puts) {
				check(std::find(m_current->raised.begin(), m_current->raised.end(), put.flag) != m_current->raised.end(), "data is put with a flag");
				const auto to = m_part.words.at(put.flag).device;
				check(m_part.has_put.at(put.flag) && graph_inbox::is_for(put.inbox.array, put.copy.element_size_bytes), "a flag tells of a put");
				check(put.copy.source.address == address_in(memory_of(m_part.device)), "a device puts its own data");
				check(arrived.emplace(std::pair(to, put.inbox.address), &put.copy).second, "an inbox is used once");
			}
			has_begun = true;
		}
		for(const auto flag : m_current->awaited) {
			const auto& word = m_part.words.at(flag);
			check(word.device == m_part.device, "a device waits for flags in its own memory");
			if(!flags[{word.device, word.number}]) return has_begun;
		}
		for(std::size_t i = 0; i < m_current->arrivals.size(); ++i) {
			const auto& [inbox, flag] = m_current->arrivals[i];
			if(!flag.has_value()) continue;
			const auto& word = m_part.words.at(*flag);
			check(word.device == m_part.device && m_part.has_put.at(*flag) && inbox->address < m_part.inbox_bytes, "an inbox is at home");
			if(!flags[{word.device, word.number}]) return has_begun;
			check(is_same(*arrived.at({m_part.device, inbox->address}), copies_of(*m_current->what)[i]), "the data of the copy is in its inbox");
			++num_arrivals;
		}
		if(m_current->what.has_value()) run(number_of(*m_current->what));
		m_is_done[m_place] = true;
		++m_num_done;
		m_current = nullptr;
		return true;
	}

	static inline std::size_t num_arrivals = 0;

  private:
	const cuda_graph_part& m_part;
	std::vector<bool> m_is_done;
	std::size_t m_num_done = 0;
	const cuda_graph_node* m_current = nullptr;
	std::size_t m_place = 0;
};

bool is_before(const cuda_graph_part& part, const std::uint32_t early, const std::uint32_t late) {
	const auto& after = part.nodes.at(late).after;
	return std::any_of(after.begin(), after.end(), [&](const auto node) { return node == early || (node > early && is_before(part, early, node)); });
}

void run_round(std::mt19937& random) {
	const auto operations = make_operations(random, 1 + random() % 12);
	const auto parity = random() % 4;
	const auto parts = part_by_device(operations, 0, [&](const auto& what) { return !copies_of(what).empty() && number_of(what) % 4 <= parity; });
	for(const auto& part : parts) {
		for(const auto& node : part.nodes) {
			const bool is_urgent = !node.is_exchange() && operations[number_of(*node.what)].is_urgent;
			check(node.is_urgent == is_urgent, "a node is as urgent as its operation");
			for(const auto one : node.after) {
				for(const auto other : node.after) check(other == one || !is_before(part, other, one), "no edge is implied by another one");
			}
		}
	}
	std::vector<device> devices(parts.begin(), parts.end());
	std::map<std::pair<device_id, std::uint32_t>, bool> flags;
	inboxes arrived;
	std::vector<bool> has_run(operations.size());
	const auto run = [&](const std::size_t number) {
		for(const auto earlier : operations[number].after) check(has_run[earlier], "an operation runs after those that it depends on");
		check(!has_run[number], "an operation runs once");
		has_run[number] = true;
	};
	for(std::size_t num_idle = 0; num_idle < 200 * devices.size();) {
		if(std::all_of(devices.begin(), devices.end(), [](const device& d) { return d.is_done(); })) break;
		num_idle = devices[random() % devices.size()].advance(random, flags, arrived, run) ? 0 : num_idle + 1;
	}
	check(std::all_of(has_run.begin(), has_run.end(), [](const bool has) { return has; }), "all operations run: no device waits for ever");
}

} // namespace

int main(const int argc, const char** const argv) {
	std::mt19937 random(argc > 2 ? static_cast<std::uint32_t>(std::atoi(argv[2])) : 1);
	const int rounds = argc > 1 ? std::atoi(argv[1]) : 3000;
	for(int i = 0; i < rounds; ++i) run_round(random);
	check(4 * device::num_arrivals > static_cast<std::size_t>(rounds), "data is put into inboxes");
	std::printf("%d graphs of several devices are right\n", rounds);
	return 0;
}
