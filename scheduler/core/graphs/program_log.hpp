// SPDX-License-Identifier: MIT
// This rank's program as the ranks compare it: a running digest of all buffers and tasks in program order. Two ranks run the same program as long as their
// digests agree; the first entry with different digests is the first difference.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.hpp"
#include "vocabulary/task.hpp"

namespace celerity {

/// How far a program has come: its number of entries, and the digest of all of them.
struct program_position {
	std::uint64_t entries = 0;
	std::uint64_t digest = 0;
	friend bool operator==(const program_position&, const program_position&) = default;
};

/// The scheduler thread adds; any thread compares.
class program_log {
  public:
	/// Digests of the last so many entries are kept: an older claim cannot be compared.
	static constexpr std::size_t num_kept = 1U << 16U;
	/// The last so many entries can be described.
	static constexpr std::size_t num_described = 2048;

	explicit program_log(std::size_t num_ranks);

	/// Called once with the first rank whose program differs, on the thread that has noticed, without locks. Set it before the first entry.
	void set_divergence_callback(std::function<void(rank_id)> callback) { m_on_divergence = std::move(callback); }

	void add_buffer(const buffer_info& info);
	/// A task as it enters the log.
	struct task_entry {
		std::uint64_t digest_without_values = 0;
		std::shared_ptr<const task> described;
	};
	task_entry entry_for(std::shared_ptr<const task> added) const;
	/// After the task graph has numbered it. The entry may be that of an equal task.
	void add_task(const task_entry& entry, task_id id);

	program_position latest() const;
	/// The digest of the program up to this task; 0 if it is not known yet or any more.
	std::uint64_t digest_at(task_id id) const;
	/// The digests of up to `count` entries: `first`, `first + stride`, .... The list ends where this rank's program ends.
	std::vector<std::uint64_t> digests(std::uint64_t first, std::uint64_t stride, std::size_t count) const;
	/// The first entry whose digest is still known.
	std::uint64_t oldest() const;

	enum class verdict : std::uint8_t { same, different, unknown };
	/// Compares with the program of `peer`. If this rank has not come so far yet, it compares when it does.
	verdict compare(rank_id peer, const program_position& claimed);
	/// The same for the digest up to a task. A digest of 0 is not compared.
	verdict compare_task(rank_id peer, task_id id, std::uint64_t claimed);

	/// Whether some rank's program is known to differ: nothing may be exchanged any more.
	bool has_diverged() const { return m_has_diverged.load(std::memory_order_relaxed); }
	struct divergence {
		rank_id peer;
		std::uint64_t entry = 0; ///< the first difference is at or before this entry
		CELERITY_FIELDS(peer, entry)
	};
	std::optional<divergence> first_divergence() const;

	/// A description of one entry in words. Two ranks compare its aspects one by one.
	struct description {
		std::uint64_t site = 0; ///< the line of the program, as `task::site` has it; 0 if it is not known
		std::vector<std::pair<std::string, std::string>> aspects;
		CELERITY_FIELDS(site, aspects)
	};
	/// Nothing if the entry is too old, or still to come.
	std::optional<description> describe(std::uint64_t entry) const;

  private:
	using subject = std::variant<std::shared_ptr<const buffer_info>, std::shared_ptr<const task>>;
	struct claim {
		rank_id peer;
		bool is_task = false;
		std::uint64_t number = 0; ///< an entry or a task
		std::uint64_t digest = 0;
	};
	struct task_place {
		std::uint64_t task = 0;
		std::uint64_t entry = 0;
	};

	const std::size_t m_num_ranks;
	std::function<void(rank_id)> m_on_divergence;
	std::atomic<bool> m_has_diverged{false};

	mutable std::mutex m_mutex;
	program_position m_latest;
	std::uint64_t m_last_task = 0;
	std::vector<std::uint64_t> m_digests;   ///< of entry n at n modulo num_kept
	std::vector<task_place> m_tasks;        ///< of task t at t modulo num_kept
	std::vector<subject> m_subjects;        ///< of entry n at n modulo num_described
	std::vector<claim> m_claims;            ///< about entries that this rank has not come to yet; a few per peer
	std::optional<divergence> m_divergence;

	void add(std::uint64_t digest, subject&& what, task_id task);
	bool is_known(std::uint64_t entry) const { return entry > 0 && entry <= m_latest.entries && entry + num_kept > m_latest.entries; }
	std::uint64_t entry_of(task_id id) const;
	verdict judge(const claim& claimed) const;
	verdict note(const claim& claimed);
	void diverge(std::unique_lock<std::mutex>& lock, const claim& claimed);
};

} // namespace celerity
