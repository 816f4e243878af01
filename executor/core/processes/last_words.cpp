// SPDX-License-Identifier: MIT
#include "last_words.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <utility>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace celerity {

namespace {

struct handled_signal {
	int number;
	std::string_view name;
	bool leaves_to_program; ///< not ours if the program handles it
};
constexpr std::array<handled_signal, 7> handled{{{SIGSEGV, "SIGSEGV", false}, {SIGBUS, "SIGBUS", false}, {SIGFPE, "SIGFPE", false}, {SIGILL, "SIGILL", false},
    {SIGABRT, "SIGABRT", false}, {SIGXCPU, "SIGXCPU", true}, {SIGTERM, "SIGTERM", true}}};
constexpr std::size_t max_launchers = 16;
constexpr std::size_t max_tasks_told = 3;
constexpr std::size_t signal_stack_bytes = std::size_t{64} << 10U;
constexpr std::string_view mpi_files = "/dev/shm/mpich_shm_";

/// Signal handlers read it.
struct options_for_handlers {
	std::uint32_t rank = 0;
	std::array<pid_t, max_launchers> launchers{};
	int (*find_line)(const void*, int) = nullptr;
};
options_for_handlers current;
std::array<struct sigaction, handled.size()> previous;
std::atomic<pid_t> owner{0}; ///< the process that has installed the handlers; a forked child keeps them, and is no rank
std::atomic<bool> has_told{false};
std::atomic<std::atomic<bool>*> shared_flag{nullptr};

/// The task of a thread.
struct slot {
	std::atomic<pid_t> thread{0}; ///< 0: nobody's
	std::atomic<bool> is_running{false};
	running_task task;
};
/// More threads than call user functions: one per device, and 64 for host tasks.
std::array<slot, 128> slots;

/// The slot of one thread, and a stack on which its handlers run, as its own may have overflowed.
class thread_state {
  public:
	thread_state() {
		const auto thread = static_cast<pid_t>(::syscall(SYS_gettid));
		for(slot& each : slots) {
			pid_t nobody = 0;
			if(each.thread.compare_exchange_strong(nobody, thread)) {
				m_slot = &each;
				break;
			}
		}
		stack_t known{};
		if(::sigaltstack(nullptr, &known) != 0 || (known.ss_flags & SS_DISABLE) == 0) return; // such as that of faulthandler
		m_stack = std::make_unique<char[]>(signal_stack_bytes);
		stack_t own{};
		own.ss_sp = m_stack.get();
		own.ss_size = signal_stack_bytes;
		::sigaltstack(&own, nullptr);
	}
	~thread_state() {
		if(m_slot != nullptr) {
			m_slot->is_running.store(false);
			m_slot->thread.store(0);
		}
		stack_t known{};
		if(m_stack == nullptr || ::sigaltstack(nullptr, &known) != 0) return;
		if(known.ss_sp != m_stack.get() || (known.ss_flags & SS_ONSTACK) != 0) {
			(void)m_stack.release(); // another library may have kept it to set it again
			return;
		}
		stack_t none{};
		none.ss_flags = SS_DISABLE;
		::sigaltstack(&none, nullptr);
	}
	thread_state(const thread_state&) = delete;
	thread_state& operator=(const thread_state&) = delete;

	slot* own_slot() const { return m_slot; }

  private:
	slot* m_slot = nullptr;
	std::unique_ptr<char[]> m_stack;
};

thread_state& state_of_thread() {
	thread_local thread_state state;
	return state;
}

void add_task(plain_line& line, const running_task& task) {
	line << task.kind << " \"" << task.name << "\" (submitted at " << task.file;
	if(current.find_line != nullptr) line << ":" << current.find_line(task.code, task.position);
	line << ")";
}

/// The task of the thread that has the signal if it has one. A signal of another process comes to any thread.
void add_tasks(plain_line& line) {
	const auto thread = static_cast<pid_t>(::syscall(SYS_gettid));
	for(const slot& each : slots) {
		if(each.thread.load() != thread || !each.is_running.load()) continue;
		line << " in ";
		add_task(line, each.task);
		return;
	}
	std::size_t num_told = 0;
	for(const slot& each : slots) {
		if(each.thread.load() == 0 || !each.is_running.load()) continue;
		if(num_told == max_tasks_told) {
			line << ", ...";
			break;
		}
		line << (num_told++ == 0 ? " during " : ", ");
		add_task(line, each.task);
	}
	if(num_told == 0) line << " while it runs no Python function of a task";
}

bool is_of_launcher(const siginfo_t& info) {
	const auto& known = current.launchers;
	return info.si_code <= 0 && info.si_pid != 0 && std::find(known.begin(), known.end(), info.si_pid) != known.end();
}

void tell(const int signal, const siginfo_t& info) {
	plain_line line;
	line << "celerity_py, rank " << current.rank << " (process " << static_cast<long>(owner.load()) << "): ended by ";
	add_signal(line, signal);
	if(info.si_code <= 0 && info.si_pid != 0 && info.si_pid != owner.load()) line << " of process " << static_cast<long>(info.si_pid);
	add_tasks(line);
	line << ".";
	if(signal != SIGTERM && signal != SIGXCPU) line << " With PYTHONFAULTHANDLER=1 Python prints its lines.";
	line.write();
}

void on_signal(const int signal, siginfo_t* const info, void* const) {
	const int saved_errno = errno;
	if(::getpid() == owner.load()) {
		if(!is_of_launcher(*info) && !has_told.exchange(true)) tell(signal, *info);
		if(auto* const are_told = shared_flag.load(); are_told != nullptr) are_told->store(true);
		remove_mpi_files();
	}
	for(std::size_t i = 0; i < handled.size(); ++i) {
		if(handled[i].number == signal) ::sigaction(signal, &previous[i], nullptr);
	}
	// A fault comes again when the instruction is repeated. A signal that somebody has sent does not; the thread gets it when this handler returns.
	if(info->si_code <= 0) ::syscall(SYS_tgkill, ::getpid(), ::syscall(SYS_gettid), signal);
	errno = saved_errno;
}

bool is_ours(const struct sigaction& known) { return (known.sa_flags & SA_SIGINFO) != 0 && known.sa_sigaction == &on_signal; }

bool is_default(const struct sigaction& known) { return (known.sa_flags & SA_SIGINFO) == 0 && known.sa_handler == SIG_DFL; }

bool is_ignored(const struct sigaction& known) { return (known.sa_flags & SA_SIGINFO) == 0 && known.sa_handler == SIG_IGN; }

} // namespace

void install_last_words(const last_words_options& options) {
	owner.store(0); // while the options change
	current.rank = options.rank;
	current.find_line = options.find_line;
	current.launchers.fill(0);
	std::copy_n(options.launchers.begin(), std::min(options.launchers.size(), max_launchers), current.launchers.begin());
	owner.store(::getpid());
	state_of_thread();
	for(std::size_t i = 0; i < handled.size(); ++i) {
		struct sigaction known{};
		if(::sigaction(handled[i].number, nullptr, &known) != 0 || is_ours(known) || is_ignored(known)) continue;
		if(handled[i].leaves_to_program && !is_default(known)) continue;
		struct sigaction own{};
		own.sa_sigaction = &on_signal;
		own.sa_flags = SA_SIGINFO | SA_ONSTACK;
		::sigemptyset(&own.sa_mask);
		previous[i] = known;
		::sigaction(handled[i].number, &own, nullptr);
	}
}

void share_last_words(std::atomic<bool>* const are_told) { shared_flag.store(are_told); }

void note_running_task(const running_task* const task) {
	if(owner.load(std::memory_order_relaxed) == 0) return;
	slot* const own = state_of_thread().own_slot();
	if(own == nullptr) return;
	own->is_running.store(false, std::memory_order_release);
	if(task == nullptr) return;
	own->task = *task;
	own->is_running.store(true, std::memory_order_release);
}

void remove_mpi_files() {
	const int file = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if(file < 0) return;
	std::array<char, 512> text;
	std::array<char, 512> line;
	std::size_t size = 0;
	for(ssize_t got = 0; (got = ::read(file, text.data(), text.size())) > 0;) {
		for(ssize_t i = 0; i < got; ++i) {
			const char character = text[static_cast<std::size_t>(i)];
			if(character != '\n') {
				if(size + 1 < line.size()) line[size++] = character;
				continue;
			}
			line[std::exchange(size, 0)] = '\0';
			if(const char* const path = std::strstr(line.data(), mpi_files.data()); path != nullptr) ::unlink(path);
		}
	}
	::close(file);
}

plain_line& plain_line::operator<<(const std::string_view text) {
	for(const char character : text) {
		if(m_size + 1 >= m_text.size()) break;
		m_text[m_size++] = static_cast<unsigned char>(character) < 0x20 || character == 0x7f ? '?' : character;
	}
	return *this;
}

plain_line& plain_line::operator<<(const long number) {
	std::array<char, 24> digits;
	std::size_t first = digits.size();
	auto rest = static_cast<unsigned long>(number < 0 ? -number : number);
	do {
		digits[--first] = static_cast<char>('0' + rest % 10);
		rest /= 10;
	} while(rest != 0);
	if(number < 0) digits[--first] = '-';
	return *this << std::string_view(digits.data() + first, digits.size() - first);
}

void plain_line::write() {
	m_text[m_size++] = '\n';
	[[maybe_unused]] const auto written = ::write(STDERR_FILENO, m_text.data(), m_size);
	m_size = 0;
}

plain_line& add_signal(plain_line& line, const int signal) {
	std::string_view name = signal == SIGKILL ? "SIGKILL" : "";
	for(const handled_signal& each : handled) {
		if(each.number == signal) name = each.name;
	}
	line << "signal " << static_cast<long>(signal);
	if(!name.empty()) line << " (" << name << ")";
	return line;
}

} // namespace celerity
