// SPDX-License-Identifier: MIT
#include "generation_benchmark.hpp"

#include <chrono>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <utility>

#include "scheduler/core/pipeline/scheduling_pipeline.hpp"

namespace celerity::native {

namespace {

class counting_sink final : public instruction_sink {
  public:
	explicit counting_sink(std::vector<std::uint64_t>* const by_kind) : m_by_kind(by_kind) {}
	void submit(instruction_batch&& batch) override {
		if(m_by_kind == nullptr) return;
		for(const auto* const node : batch.instructions) ++(*m_by_kind)[node->operation.index()];
	}

  private:
	std::vector<std::uint64_t>* m_by_kind;
};

/// Takes the buffers and tasks of a topology.
class program_builder {
  public:
	virtual ~program_builder() = default;
	virtual void create(const buffer_info& info) = 0;
	virtual void submit(std::shared_ptr<task> node) = 0;

	buffer_id buffer(const int dims, const point& extents, const bool host_initialized) {
		buffer_info info;
		info.id = buffer_id(++m_last_buffer);
		info.dims = dims;
		info.extents = extents;
		info.element_size_bytes = info.element_alignment_bytes = 4;
		if(host_initialized) {
			info.initial = buffer_info::initial_contents::user_array;
			info.arrays.push_back({box::full(extents), allocation_id{user_memory, m_last_buffer}});
		}
		create(info);
		return info.id;
	}
	void kernel(const int dims, const point& extents, std::vector<buffer_access>&& accesses) {
		auto node = std::make_shared<task>();
		node->submission = submission_id(++m_last_submission);
		node->geometry.dims = dims;
		node->geometry.global = box::full(extents);
		node->accesses = std::move(accesses);
		submit(std::move(node));
	}
	void finish() {
		auto node = std::make_shared<task>();
		node->submission = submission_id(++m_last_submission);
		node->kind = task_kind::epoch;
		node->action = epoch_action::shutdown;
		submit(std::move(node));
	}

  private:
	std::uint64_t m_last_buffer = 0;
	std::uint64_t m_last_submission = 0;
};

class command_builder final : public program_builder {
  public:
	explicit command_builder(const std::size_t num_ranks) : m_tasks({4, 64}, {}, {}), m_commands(num_ranks, rank_id(0), {}) {
		auto node = std::make_shared<task>();
		node->kind = task_kind::epoch;
		node->action = epoch_action::init;
		command_builder::submit(std::move(node));
	}
	void create(const buffer_info& info) override {
		m_tasks.create_buffer(info);
		m_commands.create_buffer(info);
	}
	void submit(std::shared_ptr<task> node) override {
		m_new_tasks.clear();
		m_tasks.add(std::move(node), m_new_tasks);
		for(const auto& created : m_new_tasks) m_commands.lower(created, m_out);
		m_num_tasks += m_new_tasks.size();
	}
	std::size_t num_tasks() const { return m_num_tasks; }
	std::size_t num_commands() const { return m_out.size(); }

  private:
	task_graph m_tasks;
	command_graph_generator m_commands;
	std::vector<std::shared_ptr<const task>> m_new_tasks;
	std::size_t m_num_tasks = 0;
	std::vector<command> m_out; // kept until the end, as a graph would be
};

class pipeline_builder final : public program_builder {
  public:
	pipeline_builder(const generation_setup& setup, instruction_sink& sink) : m_pipeline(settings(setup), sink, {}) {}
	void create(const buffer_info& info) override { m_pipeline.create_buffer(info); }
	void submit(std::shared_ptr<task> node) override { m_pipeline.submit(std::move(node)); }
	const pipeline_counts& counts() const { return m_pipeline.counts(); }

  private:
	scheduling_pipeline m_pipeline;

	static pipeline_settings settings(const generation_setup& setup) {
		pipeline_settings result;
		result.capabilities.num_ranks = setup.num_ranks;
		result.capabilities.num_devices = setup.num_devices;
		result.capabilities.user_device_peers = false;
		result.lookahead = lookahead_mode::none;
		return result;
	}
};

using mapping = range_mapper::function_type;

box rows_and_columns(const coordinate row, const coordinate rows, const coordinate column, const coordinate columns) {
	return box(point{{row, column, 0}}, point{{row + rows, column + columns, 1}});
}
range_mapper custom(mapping fn) { return range_mapper::from_function(std::move(fn)); }

void build_soup(program_builder& graph, const coordinate n) {
	constexpr coordinate num_tasks = 100;
	const auto b = graph.buffer(2, point{{n, num_tasks, 1}}, true);
	for(coordinate t = 0; t < num_tasks; ++t) {
		graph.kernel(1, point{{n, 1, 1}},
		    {{b, access_mode::read_write, custom([t](const box& c, const box&) { return rows_and_columns(c.min(0), c.extent(0), t, 1); })}});
	}
}

void build_chain(program_builder& graph, const coordinate n) {
	const auto b = graph.buffer(2, point{{n, n, 1}}, true);
	for(int t = 0; t < 30; ++t) {
		graph.kernel(2, point{{n, n, 1}},
		    {{b, access_mode::read, custom([](const box& c, const box&) { return rows_and_columns(c.min(1), c.extent(1), c.min(0), c.extent(0)); })},
		        {b, access_mode::read_write, range_mapper::one_to_one()}});
	}
}

void build_tree(program_builder& graph, const coordinate n, const bool expanding) {
	constexpr coordinate breadth = 16; // 2^(ceil(log2(30 + 1)) - 1)
	const auto b = graph.buffer(2, point{{n, breadth, 1}}, true);
	for(coordinate step = 1; step <= breadth; step *= 2) {
		const coordinate width = expanding ? breadth / step : step;
		for(coordinate offset = 0; offset < breadth; offset += width) {
			graph.kernel(1, point{{n, 1, 1}},
			    {{b, access_mode::read, custom([=](const box&, const box& all) { return rows_and_columns(0, all.extent(0), offset, width); })},
			        {b, access_mode::read_write, custom([=](const box& c, const box&) { return rows_and_columns(c.min(0), c.extent(0), offset, width); })}});
		}
	}
}

void build_wave_sim(program_builder& graph, const double duration) {
	const point size{{512, 512, 1}};
	auto up = graph.buffer(2, size, false);
	auto u = graph.buffer(2, size, false);
	const auto step = [&] {
		graph.kernel(2, size,
		    {{up, access_mode::read_write, range_mapper::one_to_one()},
		        {u, access_mode::read, range_mapper::built_in(range_mapper::kind::neighborhood, 2, point{{1, 1, 0}}, range_mapper::along_axes)}});
	};
	graph.kernel(2, size, {{u, access_mode::write, range_mapper::one_to_one()}});
	graph.kernel(2, size, {{up, access_mode::write, range_mapper::one_to_one()}});
	step();
	for(double t = 0; t < duration; t += 0.25) {
		step();
		std::swap(u, up);
	}
}

void build_jacobi(program_builder& graph) {
	constexpr coordinate size = 1024;
	const auto a = graph.buffer(2, point{{size, size, 1}}, true);
	const auto b = graph.buffer(1, point{{size, 1, 1}}, true);
	auto x = graph.buffer(1, point{{size, 1, 1}}, false);
	auto x_new = graph.buffer(1, point{{size, 1, 1}}, false);
	const auto interval = [](const std::size_t d) {
		return custom([d](const box& c, const box&) { return box(point{{c.min(d), 0, 0}}, point{{c.max(d), 1, 1}}); });
	};
	graph.kernel(1, point{{size, 1, 1}}, {{x, access_mode::write, range_mapper::one_to_one()}});
	for(int i = 0; i < 50; ++i) {
		graph.kernel(2, point{{size, size, 1}},
		    {{a, access_mode::read, range_mapper::one_to_one()}, {b, access_mode::read, interval(0)}, {x, access_mode::read, interval(1)},
		        {x_new, access_mode::write, interval(0)}});
		std::swap(x, x_new);
	}
}

void build(program_builder& graph, const generation_setup& setup) {
	const auto n = static_cast<coordinate>(setup.num_ranks);
	if(setup.topology == "soup") {
		build_soup(graph, n);
	} else if(setup.topology == "chain") {
		build_chain(graph, n);
	} else if(setup.topology == "expanding_tree" || setup.topology == "contracting_tree") {
		build_tree(graph, n, setup.topology == "expanding_tree");
	} else if(setup.topology == "wave_sim") {
		build_wave_sim(graph, setup.wave_time);
	} else if(setup.topology == "jacobi") {
		build_jacobi(graph);
	} else {
		throw std::invalid_argument("unknown topology '" + setup.topology + "'");
	}
	graph.finish();
}

} // namespace

generation_result measure_generation(const generation_setup& setup, const std::size_t num_rounds) {
	generation_result result;
	result.instructions_by_kind.resize(std::variant_size_v<instruction_operation>);
	for(std::size_t round = 0; round < num_rounds; ++round) {
		counting_sink sink(round == 0 ? &result.instructions_by_kind : nullptr);
		const auto start = std::chrono::steady_clock::now();
		if(setup.with_instructions) {
			pipeline_builder graph(setup, sink);
			build(graph, setup);
			result.num_tasks = graph.counts().tasks + graph.counts().horizons;
			result.num_commands = graph.counts().commands;
		} else {
			command_builder graph(setup.num_ranks);
			build(graph, setup);
			result.num_tasks = graph.num_tasks();
			result.num_commands = graph.num_commands();
		}
		result.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
	}
	return result;
}

} // namespace celerity::native
