// SPDX-License-Identifier: MIT
// The line that a rank writes when a signal ends its process: a launcher ends the other ranks at once, and rarely names the one that was first.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace celerity {

struct last_words_options {
	std::uint32_t rank = 0;
	/// The ancestors of this process up to the launcher. They end a rank because another one has failed, which needs no line.
	std::vector<pid_t> launchers;
	/// The line of the program at a position in its code, for signal handlers; it may be 0.
	int (*find_line)(const void* code, int position) = nullptr;
};

/// From now on this process writes a line when SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU or SIGTERM ends it, and removes the files of MPI. Then the
/// handler from before has its turn. The last two signals are left alone if the program handles them. Later calls change the options.
void install_last_words(const last_words_options& options);

/// The signal handlers set this flag when nobody else needs to tell of the end of this process; null: there is none.
void share_last_words(std::atomic<bool>* are_told);

/// A task whose function a thread calls. The texts and the code live until the end of the call.
struct running_task {
	const char* kind = nullptr;
	const char* name = nullptr;
	const char* file = nullptr; ///< with `code` and `position`: the line that has submitted it
	const void* code = nullptr;
	int position = 0;
};
/// The calling thread calls the function of this task; null: the call has ended. Does nothing without install_last_words().
void note_running_task(const running_task* task);

/// Removes the files in shared memory of MPICH that this process has mapped. MPICH leaves them behind if a run does not end regularly. Safe in signal handlers.
void remove_mpi_files();

/// A line of text for signal handlers: no allocation, and no control characters but the end of the line. Longer text is cut.
class plain_line {
  public:
	plain_line& operator<<(std::string_view text);
	plain_line& operator<<(long number);
	/// To standard error, in one piece.
	void write();

  private:
	std::array<char, 1024> m_text;
	std::size_t m_size = 0;
};

/// Such as "signal 9 (SIGKILL)".
plain_line& add_signal(plain_line& line, int signal);

} // namespace celerity
