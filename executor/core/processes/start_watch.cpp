// SPDX-License-Identifier: MIT
#include "start_watch.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

namespace celerity {

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

/// The thread name by which ranks that wait recognise each other. Linux shows up to 15 characters.
constexpr const char* thread_name = "celerity-start";
/// The name of a process that has come to the end of its program, and may stand in MPI_Finalize for ever: `rank_process.py` gives it.
constexpr const char* name_at_end = "celerity-ended";
constexpr auto look_at_ranks_interval = 1s;
/// A rank counts as ended only if its process has been missing for so long: a wrapper may be about to start it.
constexpr auto ended_patience = 2s;
constexpr auto speaker_patience = 3s;
/// Of a core. A process that sleeps or waits takes less.
constexpr double busy_share = 0.05;

/// What can be read. A process may end between opening and reading, where a stream of the library would throw.
std::string read_file(const fs::path& path) {
	std::string text;
	const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
	if(file < 0) return text;
	std::array<char, 4096> piece;
	for(ssize_t size = 0; (size = read(file, piece.data(), piece.size())) > 0;) text.append(piece.data(), static_cast<std::size_t>(size));
	close(file);
	return text;
}

std::optional<std::uint32_t> find_rank(const pid_t process, const std::string& variable) {
	const std::string environment = '\0' + read_file("/proc/" + std::to_string(process) + "/environ");
	const std::string wanted = '\0' + variable + '=';
	const auto found = environment.find(wanted);
	if(found == std::string::npos) return std::nullopt;
	return static_cast<std::uint32_t>(std::strtoul(environment.c_str() + found + wanted.size(), nullptr, 10));
}

struct process_state {
	pid_t parent = 0;
	std::uint64_t ticks = 0; ///< of processor time
};

/// The rest of `stat` behind the name: a space, the state, the parent, and further on the processor time in and out of the kernel.
std::optional<process_state> parse_stat(const std::string& stat) {
	const auto name_end = stat.rfind(')');
	if(name_end == std::string::npos || name_end + 4 >= stat.size() || stat[name_end + 2] == 'Z' || stat[name_end + 2] == 'X') return std::nullopt;
	std::istringstream fields(stat.substr(name_end + 4));
	process_state state;
	std::uint64_t in_user = 0;
	std::uint64_t in_kernel = 0;
	fields >> state.parent;
	std::string skipped;
	for(int field = 0; field < 9; ++field) fields >> skipped;
	fields >> in_user >> in_kernel;
	state.ticks = in_user + in_kernel;
	return state;
}

/// The running processes.
std::unordered_map<pid_t, process_state> list_processes() {
	std::unordered_map<pid_t, process_state> processes;
	std::error_code error;
	for(fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
		const auto process = static_cast<pid_t>(std::strtol(entry->path().filename().c_str(), nullptr, 10));
		if(process <= 0) continue;
		if(const auto state = parse_stat(read_file(entry->path() / "stat"))) processes.emplace(process, *state);
	}
	return processes;
}

bool is_waiting(const pid_t process) {
	std::error_code error;
	for(fs::directory_iterator entry("/proc/" + std::to_string(process) + "/task", error), end; !error && entry != end; entry.increment(error)) {
		if(read_file(entry->path() / "comm").starts_with(thread_name)) return true;
	}
	return false;
}

std::string list_of(const std::set<std::uint32_t>& ranks) {
	std::string text = ranks.size() == 1 ? "rank " : "ranks ";
	for(auto rank = ranks.begin(); rank != ranks.end(); ++rank) {
		if(rank != ranks.begin()) text += ", ";
		text += std::to_string(*rank);
	}
	return text;
}

} // namespace

start_watch::start_watch(start_watch_options options) : m_options(std::move(options)), m_thread([this] { run(); }) {}

void start_watch::stop() {
	{
		const std::lock_guard lock(m_mutex);
		m_is_over = true;
	}
	m_changed.notify_all();
	if(m_thread.joinable()) m_thread.join();
}

void start_watch::run() {
	pthread_setname_np(pthread_self(), thread_name);
	const auto start = clock::now();
	auto last_complete = start;
	auto last_moved = start;
	bool has_reported = false;
	for(auto next = start + look_at_ranks_interval; sleep_until(next); next += look_at_ranks_interval) {
		const auto here = look_around();
		const auto ended = find_ended(here);
		const auto now = clock::now();
		if(ended.empty()) last_complete = now;
		if(!are_still(here)) last_moved = now;
		if(now - start < m_options.first_report) continue;
		const bool speaks = is_speaker(here);
		const bool is_hopeless = has_reported && now - last_complete >= ended_patience;
		const auto limit = m_options.still_limit;
		const bool is_stalled = limit > 0ms && (now - last_moved >= limit || now - start >= limit * start_watch_options::patience);
		const bool gives_up = is_hopeless || is_stalled;
		if((!has_reported || gives_up) && speaks) report(here, ended, now - start, gives_up);
		has_reported = true;
		if(!gives_up) continue;
		if(!speaks && !sleep_until(now + speaker_patience)) return; // the launcher may end all processes with the first one
		_exit(EXIT_FAILURE);
	}
}

bool start_watch::sleep_until(const clock::time_point time) {
	std::unique_lock lock(m_mutex);
	return !m_changed.wait_until(lock, time, [this] { return m_is_over; });
}

start_watch::neighbours start_watch::look_around() const {
	const auto processes = list_processes();
	const auto parent_of = [&](const pid_t process) {
		const auto found = processes.find(process);
		return found == processes.end() ? 0 : found->second.parent;
	};
	pid_t launcher = getpid();
	while(launcher > 0 && find_rank(launcher, m_options.rank_variable).has_value()) launcher = parent_of(launcher);
	if(launcher <= 0) return {}; // such as in a container of its own

	neighbours here;
	std::set<std::uint32_t> at_end;
	for(const auto& [process, state] : processes) {
		pid_t ancestor = state.parent;
		while(ancestor > 0 && ancestor != launcher) ancestor = parent_of(ancestor);
		if(ancestor != launcher) continue;
		const auto rank = find_rank(process, m_options.rank_variable);
		if(!rank.has_value() || (!m_options.awaited.empty() && !m_options.awaited.contains(*rank))) continue;
		if(read_file("/proc/" + std::to_string(process) + "/comm").starts_with(name_at_end)) at_end.insert(*rank);
		auto& entry = here[*rank];
		const bool waits = is_waiting(process);
		if(entry.process == 0 || waits) entry.process = process;
		entry.is_waiting |= waits;
		entry.ticks += state.ticks;
	}
	for(const auto rank : at_end) here.erase(rank); // with its wrapper
	return here;
}

std::set<std::uint32_t> start_watch::find_ended(const neighbours& here) {
	if(here.empty()) return {};
	if(m_options.is_one_host && m_known.empty()) {
		m_known = m_options.awaited;
		for(std::uint32_t rank = 0; m_options.awaited.empty() && rank < m_options.num_ranks; ++rank) m_known.insert(rank);
	}
	std::set<std::uint32_t> ended;
	for(const auto rank : m_known) {
		if(!here.contains(rank)) ended.insert(rank);
	}
	for(const auto& [rank, found] : here) m_known.insert(rank);
	return ended;
}

bool start_watch::are_still(const neighbours& here) {
	const auto least =
	    static_cast<std::uint64_t>(busy_share * static_cast<double>(sysconf(_SC_CLK_TCK)) * std::chrono::duration<double>(look_at_ranks_interval).count());
	bool is_missing = false;
	bool is_busy = false;
	for(const auto& [rank, found] : here) {
		if(found.is_waiting) continue;
		is_missing = true;
		const auto before = m_ticks.find(rank);
		is_busy |= before == m_ticks.end() || found.ticks >= before->second + least;
		m_ticks[rank] = found.ticks;
	}
	return is_missing && !is_busy;
}

bool start_watch::is_speaker(const neighbours& here) const {
	for(const auto& [rank, found] : here) {
		if(found.is_waiting) return rank >= m_options.rank;
	}
	return true;
}

void start_watch::report(const neighbours& here, const std::set<std::uint32_t>& ended, const clock::duration waited, const bool gives_up) const {
	std::string text = "celerity_py, rank " + std::to_string(m_options.rank) + ": waiting for other ranks for "
	                   + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(waited).count()) + " s, to connect with them. ";
	if(!ended.empty())
		text += (ended.size() == 1 ? "The process of " : "The processes of ") + list_of(ended) + (ended.size() == 1 ? " has" : " have")
		        + " ended without a queue or buffer. ";
	bool are_all_here = ended.empty() && !here.empty();
	for(const auto& [rank, found] : here) {
		if(found.is_waiting) continue;
		are_all_here = false;
		text += "Rank " + std::to_string(rank) + " (process " + std::to_string(found.process) + ") has not come to its first queue or buffer. ";
	}
	if(here.empty()) text += "Which ones cannot be seen from here. ";
	if(are_all_here && !m_options.is_one_host) text += "All ranks of this host wait, so it is one of another host. ";
	text += "All ranks have to make their first queue or buffer";
	text += gives_up ? ". This process ends.\n" : ", or none.\n";
	[[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

} // namespace celerity
