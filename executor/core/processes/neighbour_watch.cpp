// SPDX-License-Identifier: MIT
#include "neighbour_watch.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <new>
#include <stdexcept>
#include <utility>

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "last_words.hpp"
#include "threads/start_thread.hpp"

namespace celerity {

namespace {

using namespace std::chrono_literals;

#ifdef SYS_pidfd_open
constexpr long pidfd_open_call = SYS_pidfd_open;
#else
constexpr long pidfd_open_call = 434; // on all architectures
#endif
#ifdef SYS_pidfd_getfd
constexpr long pidfd_getfd_call = SYS_pidfd_getfd;
#else
constexpr long pidfd_getfd_call = 438; // on all architectures
#endif
/// Between two looks of a thread that nobody wakes.
constexpr auto look_interval = 100ms;
constexpr auto stop_interval = 50us;
constexpr int status_patience_ms = 100;

/// In memory that two processes share.
struct meeting_point {
	pthread_mutex_t held{};
	std::atomic<bool> is_over{false}; ///< the process need not be watched any longer
	std::atomic<bool> has_told{false}; ///< a signal has ended the process, which has written the line by itself
	int connection = -1;               ///< number of the file that connects the process with its launcher

	/// The word by which the kernel wakes a waiter, if FUTEX_WAITERS is set in it: the id of the holder, and flags.
	std::atomic<std::uint32_t>& word() { return *reinterpret_cast<std::atomic<std::uint32_t>*>(&held.__data.__lock); }
};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

meeting_point& point_in(const shared_memory& memory) { return *static_cast<meeting_point*>(memory.address()); }

void wait_on(std::atomic<std::uint32_t>& word, const std::uint32_t value, const std::chrono::nanoseconds limit) {
	const timespec time{limit / 1s, limit % 1s / 1ns};
	::syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

/// As wait() tells it, for a process that has ended and that its parent has not looked at yet; -1 if it cannot be told.
int status_of(const pid_t process) {
	std::ifstream file("/proc/" + std::to_string(process) + "/stat", std::ios::binary);
	const std::string text{std::istreambuf_iterator<char>(file), {}};
	const auto name_end = text.rfind(')');
	if(name_end == std::string::npos || name_end + 2 >= text.size() || text[name_end + 2] != 'Z') return -1;
	return static_cast<int>(std::strtol(text.c_str() + text.find_last_of(' '), nullptr, 10)); // the last field
}

} // namespace

neighbour_watch::neighbour_watch(const std::uint32_t rank, const pid_t watcher)
    : m_rank(rank), m_owner(::getpid()), m_own(shared_memory::create(sizeof(meeting_point))) {
	auto* const point = new(m_own.address()) meeting_point;
	pthread_mutexattr_t attributes;
	::pthread_mutexattr_init(&attributes);
	::pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	::pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	::pthread_mutex_init(&point->held, &attributes);
	::pthread_mutexattr_destroy(&attributes);
	share_last_words(&point->has_told);
	if(const char* const file = std::getenv("PMI_FD"); file != nullptr) point->connection = std::atoi(file);
	::prctl(PR_SET_PTRACER, static_cast<unsigned long>(watcher), 0, 0, 0); // for hold_connection(); fails where nothing forbids it
	m_thread = std::make_unique<std::thread>(start_thread("for a watch over another rank", [this] { run(); }));
	m_is_ready.wait(false);
}

neighbour_watch::~neighbour_watch() {
	if(::getpid() != m_owner) {
		(void)m_thread.release();
		return;
	}
	stop();
	share_last_words(nullptr);
	for(const int file : {m_process_file, m_connection}) {
		if(file >= 0) ::close(file);
	}
}

void neighbour_watch::watch(const std::uint32_t neighbour, const pid_t process, const std::string& path) {
	m_neighbour = neighbour;
	m_process = process;
	m_process_file = static_cast<int>(::syscall(pidfd_open_call, process, 0));
	try {
		m_other = shared_memory::open(path, sizeof(meeting_point));
		hold_connection();
	} catch(const std::runtime_error&) {
		// The system forbids it: the pidfd alone tells.
	}
	m_has_neighbour.store(true);
	m_has_neighbour.notify_all();
}

void neighbour_watch::stop() {
	if(m_thread == nullptr) return;
	m_is_stopping.store(true);
	m_is_stopping.notify_all();
	m_has_neighbour.store(true);
	m_has_neighbour.notify_all();
	while(!m_is_done.load()) {
		if(m_other.address() != nullptr) ::syscall(SYS_futex, &point_in(m_other).word(), FUTEX_WAKE, 1 << 20, nullptr, nullptr, 0);
		std::this_thread::sleep_for(stop_interval);
	}
	m_thread->join();
	m_thread.reset();
}

void neighbour_watch::run() {
	::pthread_setname_np(::pthread_self(), "celerity-watch");
	sigset_t others;
	::sigfillset(&others);
	for(const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::sigdelset(&others, fault);
	::pthread_sigmask(SIG_BLOCK, &others, nullptr); // they are for threads of the program
	meeting_point& own = point_in(m_own);
	::pthread_mutex_lock(&own.held);
	m_is_ready.store(true);
	m_is_ready.notify_all();
	m_has_neighbour.wait(false);
	if(m_other.address() != nullptr ? wait_for_thread() : wait_for_process()) {
		const bool has_told = m_other.address() != nullptr && point_in(m_other).has_told.load();
		if(!has_told) report();
		remove_mpi_files();
		if(!has_told) report_signal();
	}
	if(m_connection >= 0) ::close(std::exchange(m_connection, -1));
	m_is_stopping.wait(false); // the mutex tells of this process
	own.is_over.store(true);
	::pthread_mutex_unlock(&own.held);
	m_is_done.store(true);
}

void neighbour_watch::hold_connection() {
	const int connection = point_in(m_other).connection;
	if(m_process_file >= 0 && connection >= 0) m_connection = static_cast<int>(::syscall(pidfd_getfd_call, m_process_file, connection, 0));
}

bool neighbour_watch::wait_for_thread() {
	meeting_point& other = point_in(m_other);
	auto& word = other.word();
	while(!m_is_stopping.load()) {
		std::uint32_t seen = word.load();
		if((seen & FUTEX_OWNER_DIED) != 0) return true;
		if(other.is_over.load() || (seen & FUTEX_TID_MASK) == 0) return false;
		if((seen & FUTEX_WAITERS) == 0 && !word.compare_exchange_strong(seen, seen | FUTEX_WAITERS)) continue;
		wait_on(word, seen | FUTEX_WAITERS, look_interval);
	}
	return false;
}

bool neighbour_watch::wait_for_process() {
	if(m_process_file < 0) return false;
	pollfd file{m_process_file, POLLIN, 0};
	while(!m_is_stopping.load()) {
		if(::poll(&file, 1, static_cast<int>(look_interval / 1ms)) > 0) return !m_is_stopping.load();
	}
	return false;
}

void neighbour_watch::report() const {
	plain_line line;
	line << "celerity_py, rank " << static_cast<long>(m_rank) << ": the process of rank " << static_cast<long>(m_neighbour) << " ("
	     << static_cast<long>(m_process) << ") has ended in the middle of the run.";
	line.write();
}

void neighbour_watch::report_signal() const {
	pollfd file{m_process_file, POLLIN, 0};
	if(m_process_file < 0 || ::poll(&file, 1, status_patience_ms) <= 0) return;
	const int status = status_of(m_process);
	if(status < 0 || !WIFSIGNALED(status)) return;
	plain_line line;
	line << "celerity_py, rank " << static_cast<long>(m_rank) << ": rank " << static_cast<long>(m_neighbour) << " was ended by ";
	add_signal(line, WTERMSIG(status)) << ".";
	if(WTERMSIG(status) == SIGKILL) line << " The system kills a process if memory runs out: look at dmesg, and at the limits of the job.";
	line.write();
}

} // namespace celerity
