# SPDX-License-Identifier: MIT
"""Mistakes somebody could make in the core of the executor."""

from __future__ import annotations

from tests.mutants.mutation import Mutation

ENGINE = "executor/core/engine/out_of_order_engine.cpp"
ASSIGNMENT = "executor/core/engine/lane_assignment.cpp"
GATE = "executor/core/engine/remote_gate.hpp"
TURNS = "executor/core/engine/issue_turns.cpp"
ARBITER = "executor/core/transfers/receive_arbiter.cpp"
RECEIVER = "executor/core/transfers/direct_receiver.cpp"
SENDER = "executor/core/transfers/direct_sender.cpp"
DISPATCH = "executor/core/dispatch/dispatcher.cpp"
OPERATIONS = "executor/core/dispatch/operations.cpp"
TRANSFERS = "executor/core/transfers/rank_transfers.cpp"
LANES = "executor/core/loop/lane_watch.cpp"
LOOP = "executor/core/loop/executor_loop.cpp"
RUNS = "executor/core/runs/graph_runs.cpp"
REQUESTS = "executor/core/dispatch/issue_requests.cpp"
IS_LATER = "m_held.front().key != m_unissued_keys.front().key"
HELD_BY_KEY = f"if(m_held.empty() || {IS_LATER})"
POLICY_OF_HELD = "nodes[nodes.find(m_held.front().id)].policy"

EXECUTOR_MUTATIONS = (
    Mutation(
        "a lane does not wait for another lane",
        ASSIGNMENT,
        "add({predecessor.lane, predecessor.sequence});",
        "if(predecessor.lane < own_lane) add({predecessor.lane, predecessor.sequence});",
    ),
    Mutation(
        "an earlier wait on another lane counts for later work there",
        ASSIGNMENT,
        "if(known >= position.sequence ||",
        "if(known > 0 ||",
    ),
    Mutation(
        "clocks of lanes that are opened later are mistaken for each other",
        "executor/core/engine/lane_pool.hpp",
        "m_places[lane] = static_cast<std::uint32_t>(m_num_open++);",
        "m_places[lane] = static_cast<std::uint32_t>(m_num_open++ / 2);",
    ),
    Mutation(
        "a callable combines the first two partial results only",
        DISPATCH,
        "source, reduce.count, destination, reduce.is_all_of_it}",
        "source, std::min(reduce.count, std::size_t{2}), destination, reduce.is_all_of_it}",
    ),
    Mutation(
        "a device combines all but the last partial result",
        OPERATIONS,
        "allocations.place(reduce.source).address, reduce.count,",
        "allocations.place(reduce.source).address, std::max<std::size_t>(reduce.count, 2) - 1,",
    ),
    Mutation(
        "the host counts issued work as done",
        ENGINE,
        "if(successor.policy == issue_policy::host) return false;",
        "if(successor.policy == issue_policy::host) return true;",
    ),
    Mutation(
        "waits for other ranks are issued in any order",
        GATE,
        "return n.num_remote > 0 && (!m_is_allowed || m_unissued_keys.front().key < n.key);",
        "return false && n.num_remote > 0;",
        more=((HELD_BY_KEY, "if(m_held.empty())"),),
    ),
    Mutation(
        "what another rank still fetches may be overwritten",
        ENGINE,
        "if(predecessor.is_signal() && !waits_for_answers(successor)) return false;",
        "",
    ),
    Mutation(
        "who may wait on its lane for another rank to have fetched does not",
        ASSIGNMENT,
        "m_nodes[predecessor].is_signal()) m_signals.push_back(id);",
        "m_nodes[predecessor].is_clock()) m_signals.push_back(id);",
    ),
    Mutation(
        "what waits for another rank to have fetched is issued in any order",
        GATE,
        "return n.num_remote > 0 &&",
        "return n.policy == issue_policy::pull && n.num_remote > 0 &&",
        more=((HELD_BY_KEY, f"if(m_held.empty() || {POLICY_OF_HELD} == issue_policy::pull && {IS_LATER})"),),
        limit=5000,
    ),
    Mutation(
        "an answer says that the lane of the flag has come past it",
        ENGINE,
        "if(is_on_lane(n.policy) && (is_passed || !n.is_signal())) {",
        "if(is_on_lane(n.policy) && n.state != node_state::passed) {",
        limit=2000,
    ),
    Mutation(
        "one wait counts as all that a flag depends on",
        ASSIGNMENT,
        "if(n.num_incomplete != 1) return false;",
        "if(n.num_incomplete == 0) return false;",
        limit=5000,
    ),
    Mutation(
        "a flag that is written counts as its answer",
        ENGINE,
        "if(n.is_signal() && item.is_passed) {",
        "if(n.is_signal() && item.is_passed && item.slot != target) {",
    ),
    Mutation(
        "receives are issued before all of their parts are announced",
        ENGINE,
        "if(n.state == node_state::held) return; // until release()",
        "if(false) return;",
    ),
    Mutation(
        "part of a receive counts as all of it",
        ARBITER,
        "if(request->missing == 0) {",
        "if(request->missing <= 1) {",
    ),
    Mutation(
        "awaited parts complete with the first arrival",
        ARBITER,
        "if(await.missing > 0) return false;",
        "",
    ),
    Mutation(
        "the first receive of a message says that all of it was fetched",
        RECEIVER,
        "if(message.unissued == 0) {",
        "if(message.unissued >= 0) {",
    ),
    Mutation(
        "the last receive of a message does not wait for the others",
        RECEIVER,
        "pull.answer_after = message.fetched_at;",
        "",
    ),
    Mutation(
        "a receive of several parts of a message waits for itself",
        RECEIVER,
        "if(!pull.answer_after.empty() && pull.answer_after.back() == own)",
        "if(false)",
        limit=5000,
    ),
    Mutation(
        "messages from one memory share a flag, whatever they depend on",
        SENDER,
        "return recent.source == source && std::ranges::equal(recent.dependencies, dependencies);",
        "return recent.source == source;",
    ),
    Mutation(
        "a shared flag is given away when the first of its messages was fetched",
        SENDER,
        "if(--m_ready_flags[index].num_messages > 0) return;",
        "--m_ready_flags[index].num_messages;",
        limit=2000,
    ),
    Mutation(
        "a flag that is used again has the value of before",
        SENDER,
        "m_ready_flags[index] = {m_ready_flags[index].value + 1, 1, false};",
        "m_ready_flags[index] = {std::max(m_ready_flags[index].value, 1U), 1, false};",
    ),
    Mutation(
        "a slot that is used again has the value of before",
        SENDER,
        "out.answer_value = ++to.answer_values[out.slot];",
        "out.answer_value = to.answer_values[out.slot] = 1;",
    ),
    Mutation(
        "a message counts as ready as soon as it is announced",
        RECEIVER,
        "message.ready = {peer.flags.ready_flag(pilot.ready_index), pilot.ready_value};",
        "message.ready = {peer.flags.ready_flag(pilot.ready_index), 0};",
    ),
    Mutation(
        "who overwrites does not wait for the answer of the reader",
        DISPATCH,
        "m_answers.push_back(answer);",
        "static_cast<void>(answer);",
    ),
    Mutation(
        "kernels of launcher threads are issued before readers have answered",
        ENGINE.replace(".cpp", ".hpp"),
        "(n.policy == issue_policy::plain || n.policy == issue_policy::pull);",
        "is_on_lane(n.policy) && n.policy != issue_policy::signal;",
    ),
    Mutation(
        "a send is complete when its lane has come past it",
        REQUESTS,
        "to_lane(rules.direct.lanes->signal_class(send.source.memory), issue_policy::signal);",
        "to_lane(rules.direct.lanes->signal_class(send.source.memory));",
    ),
    Mutation(
        "a receive is issued before it is known what it consists of",
        REQUESTS,
        "to_lane(rules.direct.lanes->pull_class(receive.destination.memory), issue_policy::pull);",
        "to_lane(rules.direct.lanes->pull_class(receive.destination.memory));",
    ),
    Mutation(
        "receives are issued in any order",
        GATE,
        "return n.num_remote > 0 &&",
        "return n.policy != issue_policy::pull && n.num_remote > 0 &&",
        more=((HELD_BY_KEY, f"if(m_held.empty() || {POLICY_OF_HELD} != issue_policy::pull && {IS_LATER})"),),
        limit=2000,
    ),
    Mutation(
        "every receive counts as ready when it is announced",
        RUNS,
        "m_state.engine.release(released.id, released.is_ready);",
        "m_state.engine.release(released.id, true);",
        limit=2000,
    ),
    Mutation(
        "a graph of a loop gets the scalars of its first run each time",
        RUNS,
        "if(launch.scalars == graph.scalars[i]) continue;",
        "continue;",
        native_test="test_loop_batches",
    ),
    Mutation(
        "a graph is not told of scalars that come again",
        RUNS,
        "graph.scalars[i] = launch.scalars;",
        "if(graph.scalars[i].empty()) graph.scalars[i] = launch.scalars;",
        native_test="test_loop_batches",
    ),
    Mutation(
        "another kernel with the same accesses passes for that of the loop",
        "executor/core/runs/period_graphs.cpp",
        "&& launch->kernel == kernel ",
        "",
        native_test="test_loop_batches",
    ),
    Mutation(
        "a full lane stops the host, too",
        LOOP,
        "m_state.engine.allow_lanes(!m_lanes.is_full());",
        "if(m_lanes.is_full()) break;",
        limit=5000,
    ),
    Mutation(
        "a part of a message through the host counts as here",
        RECEIVER,
        "if(message.is_here) return part_state::here;",
        "if(message.is_here || !is_new) return part_state::here;",
        limit=2000,
    ),
    Mutation(
        "a message through the host is forgotten when its first part was taken",
        RECEIVER,
        "if(message->unretired > 0) continue;",
        "",
        limit=2000,
    ),
    Mutation(
        "flags that were kept back are written after what follows",
        DISPATCH,
        "if(!std::holds_alternative<send_instruction>(operation)) m_state.flush();",
        "",
        limit=5000,
    ),
    Mutation(
        "the engine is not told what an instruction depends on",
        REQUESTS,
        "request.dependencies = item.dependencies;",
        "",
    ),
    Mutation(
        "the engine is not told the key of an instruction",
        REQUESTS,
        "request.key = item.key;",
        "",
        limit=2000,
    ),
    Mutation(
        "kernels of launcher threads count as enqueued at once",
        REQUESTS,
        "rules.devices.defers_kernels() ? issue_policy::deferred : issue_policy::launched;",
        "issue_policy::launched;",
    ),
    Mutation(
        "a barrier passes by itself",
        REQUESTS,
        "if(!is_barrier) request.policy = issue_policy::clock;",
        "if(!is_barrier || true) request.policy = issue_policy::clock;",
    ),
    Mutation(
        "what leaves host memory goes to direct peers as a signal, too",
        "executor/core/transfers/direct_context.hpp",
        "return is_device_memory(send.source.memory) && is_peer(send.destination_rank)",
        "return is_peer(send.destination_rank)",
    ),
    Mutation(
        "a copy does not wait for other lanes",
        DISPATCH,
        "m_state.devices->enqueue_copy({item.lane, item.sequence}, waits_of(item), ",
        "m_state.devices->enqueue_copy({item.lane, item.sequence}, {}, ",
    ),
    Mutation(
        "a gather does not wait for other lanes",
        DISPATCH,
        "m_state.devices->enqueue_gather({item.lane, item.sequence}, waits_of(item), ",
        "m_state.devices->enqueue_gather({item.lane, item.sequence}, {}, ",
        limit=2000,
    ),
    Mutation(
        "a kernel that the executor launches does not wait for other lanes",
        DISPATCH,
        "m_state.launcher->enqueue_launch({item.lane, item.sequence}, waits_of(item),",
        "m_state.launcher->enqueue_launch({item.lane, item.sequence}, {},",
    ),
    Mutation(
        "a kernel of a launcher thread does not wait for other lanes",
        DISPATCH,
        "small_vector<lane_position, 4>(item.waits)}",
        "{}}",
    ),
    Mutation(
        "the loop issues only what has just come in",
        LOOP,
        "if(const int issued = issue_ready(); issued > 0) {",
        "if(const int issued = has_progressed ? issue_ready() : 0; issued > 0) {",
    ),
    Mutation(
        "lanes with work of a higher queue are taken for complete",
        LANES,
        "const std::uint64_t completed = m_state.devices->completed(last.lane);",
        "const std::uint64_t completed = last.sequence;",
    ),
    Mutation(
        "what the host has done is not told to the engine",
        LOOP,
        "for(const auto id : m_state.done) m_state.engine.complete(id);",
        "",
    ),
    Mutation(
        "pilots of direct messages go through the network as well",
        TRANSFERS,
        "if(m_direct.is_direct(send)) return m_sender.add(item, send, stamp, program_digest_at(",
        "if(m_direct.is_direct(send)) m_sender.add(item, send, stamp, program_digest_at(",
    ),
    Mutation(
        "launches are forgotten while kernels are under way",
        DISPATCH,
        "m_state.launches.drop(horizon.last_submission);",
        "m_state.launches.drop(submission_id(~std::uint64_t{0}));",
    ),
    Mutation(
        "a flag is written before its producers are done",
        SENDER,
        "m_shared.lanes->enqueue_signal({item.lane, item.sequence}, waits, ",
        "m_shared.lanes->enqueue_signal({item.lane, item.sequence}, {}, ",
    ),
    Mutation(
        "a fetch does not wait for who uses the old data",
        RECEIVER,
        "m_shared.lanes->enqueue_pulls(own, waits, m_pulls);",
        "m_shared.lanes->enqueue_pulls(own, {}, m_pulls);",
        limit=2000,
    ),
    Mutation(
        "a fetch does not wait for the flag of the sender",
        RECEIVER,
        "pull_operation{message.ready, copy_of(",
        "pull_operation{{}, copy_of(",
    ),
    Mutation(
        "nobody gets the place of an instruction that is complete",
        TURNS,
        "		try_place(m_nodes[entry.slot]);\n		return push(entry.slot);",
        "		return;",
    ),
    Mutation(
        "an instruction that waits for another rank keeps the place that the other rank needs",
        ENGINE,
        "m_turns.leave_place(n); // an instruction with a smaller key may need it",
        "",
        limit=4000,
    ),
    Mutation(
        "entries of the ready queues that are outdated are counted for ever",
        TURNS.replace(".cpp", ".hpp"),
        "		--m_num_outdated;\n",
        "",
    ),
    Mutation(
        "an instruction that was lifted into a higher queue is issued once more in its old place",
        TURNS,
        "++m_num_outdated;",
        "",
    ),
)
