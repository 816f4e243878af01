// SPDX-License-Identifier: MIT
// Pilots, notices, and small messages with their pilots are frames on three tags, into receives posted ahead. Other payloads are sent and received in place,
// with strided datatypes.
//
// * Every receive names its source. MPICH 5.0.2 never completes a receive from MPI_ANY_SOURCE whose message came through the network before the receive was
//   posted.
// * Each other rank has its own ring of receives for pilots, and as many credits. A sender holds pilots back while it has no credit, so a pilot always meets a
//   posted receive. Credits return with messages in the other direction. Likewise for small messages, which without credit go as others do.
#include "mpi_port.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "mpi_datatypes.hpp"
#include "mpi_operations.hpp"
#include "strided_layout.hpp"

namespace celerity {

namespace {

constexpr int pilot_tag = 0;
constexpr int notice_tag = 1;
constexpr int small_tag = 2;
constexpr int first_payload_tag = 3;
/// Frames under way from one rank to another, and receives posted for them: pilots, and small messages.
constexpr std::array<std::uint8_t, 2> windows{64, 8};
constexpr std::size_t of_pilots = 0, of_small = 1; ///< credits
constexpr std::size_t small_header_bytes = 16;     ///< of a frame with a small message: its id, and the size of the pilot that comes next
constexpr std::size_t notice_slots = 2;            ///< notices need no credit: further ones wait in MPI's own queue
// A frame on the wire: length of the content in two bytes, credits of both kinds given back, kind, content.
constexpr std::size_t header_bytes = 5;
constexpr std::uint8_t pilot_kind = 0; ///< on the tag of small messages, of these
constexpr std::uint8_t credits_kind = 255; ///< on the tag of notices, without content; all other kinds there are those of notices
constexpr std::chrono::seconds close_patience{1};

void check_size(const char* const what, const std::size_t size, const std::size_t limit) {
	if(size > limit) throw std::length_error(std::string(what) + " may have " + std::to_string(limit) + " bytes, this one has " + std::to_string(size));
}

using credits = std::array<std::uint8_t, 2>;

struct frame {
	credits returned;
	std::uint8_t kind;
	frame_content content;
};

frame read_frame(const std::byte* const bytes) {
	const auto number = [&](const std::size_t at) { return std::to_integer<std::uint8_t>(bytes[at]); };
	const auto size = static_cast<std::size_t>(number(0) + (number(1) << 8));
	return {{number(2), number(3)}, number(4), frame_content(bytes + header_bytes, bytes + header_bytes + size)};
}

/// A message that has come with its pilot, in its frame.
struct small_message {
	frame_content content;
	std::size_t first_byte;
};

template <typename Handle>
class mpi_port final : public message_port {
  public:
	explicit mpi_port(const mpi_settings& settings);

	void send_pilot(rank_id to, std::span<const std::byte> pilot) override;
	void send_notice(rank_id to, std::uint8_t kind, std::span<const std::byte> content) override;
	bool send_small(std::span<const std::byte> pilot, const payload& sent) override;
	void send(const payload& sent) override;
	void receive(const payload& received) override;
	void barrier(request_id request) override;
	void settle(std::int64_t number) override;
	void poll() override;
	std::size_t outstanding() const override { return m_operations.num_tracked() + m_num_held + (m_settling.has_value() ? 1 : 0); }
	std::vector<std::pair<std::uint32_t, std::int64_t>> unasked_payloads() const override;
	bool close() override;

  private:
	using subject = typename mpi_operations<Handle>::subject;
	struct counts {
		std::int64_t frames = 0;
		std::int64_t payloads = 0;
	};
	struct peer {
		celerity::credits credits = windows;
		celerity::credits owed{};
		std::deque<frame_content> held; ///< pilots that wait for a credit
		std::unordered_map<message_id, small_message> small; ///< have come, and are not received
		counts sent;
		counts taken; ///< payloads: asked for
	};
	struct settling {
		std::int64_t number = 0;
		std::vector<counts> told;  ///< by rank, what this one has sent there
		std::vector<counts> heard; ///< by rank, what that one has sent to here
		bool has_heard = false;
	};

	const mpi_api<Handle> m_api;
	const rank_id m_rank;
	const int m_num_payload_tags;
	mpi_datatypes<Handle> m_datatypes;
	mpi_operations<Handle> m_operations;
	std::vector<mpi_inbox<Handle>> m_inboxes;
	std::vector<peer> m_peers; ///< by rank
	std::size_t m_num_held = 0;
	std::optional<settling> m_settling;
	std::vector<counts> m_heard;   ///< when settled
	bool m_is_settled = false;     ///< and nothing has been sent since
	bool m_has_sent_late = false;  ///< a frame left after the others had been told how many there are

	int tag_of(const payload& message) const {
		return first_payload_tag + static_cast<int>(message.message.value % static_cast<std::uint64_t>(m_num_payload_tags));
	}
	void send_frame(rank_id to, int tag, std::uint8_t kind, std::span<const std::byte> content);
	/// `bytes`: room for the header, then the content.
	void send_frame(rank_id to, int tag, std::uint8_t kind, frame_content&& bytes);
	void take_frames(std::size_t position);
	void take_frame(mpi_inbox<Handle>& inbox, frame&& taken);
	/// Sends pilots that have waited for credits.
	void send_held(rank_id to);
	bool has_all() const;
};

template <typename Handle>
mpi_port<Handle>::mpi_port(const mpi_settings& settings)
    : message_port(settings.largest_small_bytes), m_api(settings), m_rank(settings.rank), m_num_payload_tags(settings.largest_tag + 1 - first_payload_tag),
      m_datatypes(m_api, settings.largest_count), m_operations(m_api), m_peers(settings.num_ranks) {
	m_inboxes.reserve(3 * m_peers.size());
	const auto add_inboxes = [&](const int tag, const std::size_t num_slots, const std::size_t limit_bytes) {
		for(rank_id source(0); source.value < m_peers.size(); ++source.value) {
			if(source == m_rank) continue;
			m_operations.add_inbox(m_inboxes.emplace_back(m_api, source, tag, num_slots, header_bytes + limit_bytes).next_receive());
		}
	};
	add_inboxes(pilot_tag, windows[of_pilots], pilot_limit_bytes);
	add_inboxes(small_tag, windows[of_small], small_header_bytes + pilot_limit_bytes + largest_small_bytes());
	add_inboxes(notice_tag, notice_slots, notice_limit_bytes);
}

template <typename Handle>
void mpi_port<Handle>::send_pilot(const rank_id to, const std::span<const std::byte> pilot) {
	check_size("a pilot", pilot.size(), pilot_limit_bytes);
	auto& peer = m_peers.at(to.value);
	if(peer.credits[of_pilots] == 0) {
		peer.held.emplace_back(pilot.begin(), pilot.end());
		++m_num_held;
		return;
	}
	--peer.credits[of_pilots];
	send_frame(to, pilot_tag, pilot_kind, pilot);
}

template <typename Handle>
void mpi_port<Handle>::send_notice(const rank_id to, const std::uint8_t kind, const std::span<const std::byte> content) {
	check_size("a notice", content.size(), notice_limit_bytes);
	send_frame(to, notice_tag, kind, content);
}

template <typename Handle>
bool mpi_port<Handle>::send_small(const std::span<const std::byte> pilot, const payload& sent) {
	check_size("a pilot", pilot.size(), pilot_limit_bytes);
	check_size("a small message", bytes_of(sent), largest_small_bytes());
	auto& peer = m_peers.at(sent.peer_rank.value);
	if(peer.credits[of_small] == 0) return false;
	--peer.credits[of_small];
	frame_content bytes(header_bytes + small_header_bytes + pilot.size() + bytes_of(sent));
	const std::array<std::uint64_t, 2> header{sent.message.value, pilot.size()};
	static_assert(sizeof header == small_header_bytes);
	std::memcpy(bytes.data() + header_bytes, header.data(), sizeof header);
	std::memcpy(bytes.data() + header_bytes + sizeof header, pilot.data(), pilot.size());
	pack(sent, bytes.data() + header_bytes + sizeof header + pilot.size());
	send_frame(sent.peer_rank, small_tag, pilot_kind, std::move(bytes));
	return true;
}

template <typename Handle>
void mpi_port<Handle>::send(const payload& sent) {
	++m_peers.at(sent.peer_rank.value).sent.payloads;
	m_is_settled = false;
	const auto place = m_datatypes.place(sent);
	Handle operation{};
	m_api.check(m_api.isend(place.address, place.count, place.datatype, static_cast<int>(sent.peer_rank.value), tag_of(sent), m_api.communicator, &operation),
	    "MPI_Isend");
	m_operations.track(operation, subject::request, sent.request);
}

template <typename Handle>
void mpi_port<Handle>::receive(const payload& received) {
	auto& peer = m_peers.at(received.peer_rank.value);
	if(const auto small = peer.small.extract(received.message); !small.empty()) {
		unpack(small.mapped().content.data() + small.mapped().first_byte, received);
		m_messages.completed.push_back(received.request);
		return;
	}
	++peer.taken.payloads;
	const auto place = m_datatypes.place(received);
	Handle operation{};
	m_api.check(
	    m_api.irecv(place.address, place.count, place.datatype, static_cast<int>(received.peer_rank.value), tag_of(received), m_api.communicator, &operation),
	    "MPI_Irecv");
	m_operations.track(operation, subject::request, received.request);
}

template <typename Handle>
void mpi_port<Handle>::barrier(const request_id request) {
	Handle operation{};
	m_api.check(m_api.ibarrier(m_api.communicator, &operation), "MPI_Ibarrier");
	m_operations.track(operation, subject::request, request);
}

template <typename Handle>
void mpi_port<Handle>::settle(const std::int64_t number) {
	for(rank_id to(0); to.value < m_peers.size(); ++to.value) {
		for(auto& held = m_peers[to.value].held; !held.empty(); held.pop_front()) send_frame(to, pilot_tag, pilot_kind, held.front());
	}
	m_num_held = 0;
	m_has_sent_late = false;
	auto& state = m_settling.emplace();
	state.number = number;
	for(const auto& peer : m_peers) state.told.push_back(peer.sent);
	state.heard.resize(m_peers.size());
	Handle operation{};
	constexpr int num_words = sizeof(counts) / sizeof(std::int64_t);
	m_api.check(m_api.ialltoall(state.told.data(), num_words, m_api.words[3], state.heard.data(), num_words, m_api.words[3], m_api.communicator, &operation),
	    "MPI_Ialltoall");
	m_operations.track(operation, subject::settling);
}

template <typename Handle>
void mpi_port<Handle>::poll() {
	for(const int found : m_operations.test()) {
		const auto position = static_cast<std::size_t>(found);
		if(position < m_operations.num_inboxes()) {
			take_frames(position);
			continue;
		}
		const auto [waiting, request] = m_operations.retire(position);
		if(waiting == subject::request) m_messages.completed.push_back(request);
		if(waiting == subject::settling) m_settling->has_heard = true;
	}
	if(!m_settling.has_value() || !has_all()) return;
	m_control.settled.push_back(m_settling->number);
	m_heard = std::move(m_settling->heard);
	m_settling.reset();
	m_is_settled = !m_has_sent_late;
}

template <typename Handle>
bool mpi_port<Handle>::has_all() const {
	if(!m_settling->has_heard) return false;
	for(std::size_t rank = 0; rank < m_peers.size(); ++rank) {
		if(m_peers[rank].taken.frames < m_settling->heard[rank].frames) return false;
	}
	return true;
}

template <typename Handle>
std::vector<std::pair<std::uint32_t, std::int64_t>> mpi_port<Handle>::unasked_payloads() const {
	std::vector<std::pair<std::uint32_t, std::int64_t>> unasked;
	for(std::uint32_t rank = 0; rank < m_heard.size(); ++rank) {
		const auto difference = m_heard[rank].payloads - m_peers[rank].taken.payloads;
		if(difference != 0) unasked.emplace_back(rank, difference);
	}
	return unasked;
}

template <typename Handle>
bool mpi_port<Handle>::close() {
	const auto deadline = std::chrono::steady_clock::now() + close_patience;
	while(outstanding() > 0 && std::chrono::steady_clock::now() < deadline) poll();
	for(auto& inbox : m_inboxes) inbox.close();
	m_datatypes.clear();
	return (m_is_settled || m_peers.size() == 1) && unasked_payloads().empty();
}

template <typename Handle>
void mpi_port<Handle>::send_frame(const rank_id to, const int tag, const std::uint8_t kind, const std::span<const std::byte> content) {
	frame_content bytes(header_bytes + content.size());
	if(!content.empty()) std::memcpy(bytes.data() + header_bytes, content.data(), content.size());
	send_frame(to, tag, kind, std::move(bytes));
}

template <typename Handle>
void mpi_port<Handle>::send_frame(const rank_id to, const int tag, const std::uint8_t kind, frame_content&& bytes) {
	auto& peer = m_peers.at(to.value);
	++peer.sent.frames;
	m_is_settled = false;
	m_has_sent_late |= m_settling.has_value();
	const auto returned = std::exchange(peer.owed, credits{});
	const auto size = bytes.size() - header_bytes;
	const std::array<std::uint8_t, header_bytes> header{
	    static_cast<std::uint8_t>(size & 255), static_cast<std::uint8_t>(size >> 8), returned[of_pilots], returned[of_small], kind};
	std::memcpy(bytes.data(), header.data(), header.size());
	Handle operation{};
	m_api.check(m_api.isend(bytes.data(), static_cast<int>(bytes.size()), m_api.words[0], static_cast<int>(to.value), tag, m_api.communicator, &operation),
	    "MPI_Isend");
	m_operations.track(operation, subject::nobody, {}, std::move(bytes));
}

template <typename Handle>
void mpi_port<Handle>::take_frames(const std::size_t position) {
	auto& inbox = m_inboxes[position];
	const rank_id source = inbox.source();
	auto& peer = m_peers[source.value];
	bool has_more = true;
	while(has_more) {
		auto taken = read_frame(inbox.frame());
		has_more = inbox.advance();
		++peer.taken.frames;
		for(std::size_t i = 0; i < windows.size(); ++i) peer.credits[i] = static_cast<std::uint8_t>(peer.credits[i] + taken.returned[i]);
		take_frame(inbox, std::move(taken));
	}
	m_operations.replace_inbox(position, inbox.next_receive());
	send_held(source); // pilots that leave now return credits that are due
	const bool is_ending = m_settling.has_value() || !m_heard.empty();
	const auto is_due = [&](const std::size_t i) { return peer.owed[i] > windows[i] * 3 / 4; };
	if((is_due(of_pilots) || is_due(of_small)) && !is_ending) send_frame(source, notice_tag, credits_kind, std::span<const std::byte>());
}

template <typename Handle>
void mpi_port<Handle>::take_frame(mpi_inbox<Handle>& inbox, frame&& taken) {
	const rank_id source = inbox.source();
	auto& peer = m_peers[source.value];
	if(inbox.tag() == small_tag) {
		std::array<std::uint64_t, 2> header{};
		std::memcpy(header.data(), taken.content.data(), sizeof header);
		const auto* const pilot = taken.content.data() + sizeof header;
		m_messages.pilots.emplace_back(source, frame_content(pilot, pilot + header[1]));
		peer.small.emplace(message_id(header[0]), small_message{std::move(taken.content), sizeof header + header[1]});
		++peer.owed[of_small];
	} else if(taken.kind == pilot_kind) {
		m_messages.pilots.emplace_back(source, std::move(taken.content));
		++peer.owed[of_pilots];
	} else if(taken.kind != credits_kind) {
		m_control.notices.push_back({taken.kind, source, std::move(taken.content)});
	}
}

template <typename Handle>
void mpi_port<Handle>::send_held(const rank_id to) {
	auto& peer = m_peers[to.value];
	while(!peer.held.empty() && peer.credits[of_pilots] > 0) {
		--m_num_held;
		send_pilot(to, peer.held.front());
		peer.held.pop_front();
	}
}

} // namespace

std::unique_ptr<message_port> make_mpi_port(const mpi_settings& settings) {
	check_size("a small message", settings.largest_small_bytes, small_limit_bytes);
	if(settings.largest_tag < first_payload_tag) throw std::invalid_argument("a port needs at least four tags");
	if(settings.handle_bytes == sizeof(int)) return std::make_unique<mpi_port<int>>(settings);
	if(settings.handle_bytes == sizeof(void*)) return std::make_unique<mpi_port<void*>>(settings);
	throw std::invalid_argument("handles of MPI have 4 or 8 bytes, not " + std::to_string(settings.handle_bytes));
}

} // namespace celerity
