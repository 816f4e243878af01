// SPDX-License-Identifier: MIT
#include "cuda_split.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>

namespace celerity {

namespace {

using cuda::device_resource;

struct halves {
	device_resource share{};
	device_resource rest{};
};

device_resource all_of(const cuda::driver& driver, const cuda::device device) {
	if(driver.missing_for_parts != nullptr) {
		throw std::runtime_error(std::string("the CUDA driver of this machine is too old to divide multiprocessors: it lacks ") + driver.missing_for_parts);
	}
	device_resource all{};
	driver.check(driver.device_get_resource(device, &all, cuda::resource_multiprocessors), "cuDeviceGetDevResource");
	return all;
}

/// Nothing if the driver makes no part of so many multiprocessors, or leaves nothing of the rest.
std::optional<halves> try_split(const cuda::driver& driver, const device_resource& all, const std::uint32_t count) {
	halves made;
	unsigned num_groups = 1;
	const auto code = driver.split_multiprocessors(&made.share, &num_groups, &all, &made.rest, 0, count);
	if(code != cuda::success || num_groups != 1 || made.rest.num_multiprocessors == 0) return std::nullopt;
	return made;
}

std::uint32_t size_of_part(const cuda::driver& driver, const device_resource& all, const std::uint32_t at_least) {
	const auto made = try_split(driver, all, at_least);
	return made.has_value() ? made->share.num_multiprocessors : 0;
}

std::string show(const double share) {
	char text[32];
	std::snprintf(text, sizeof text, "%.3g", share);
	return text;
}

/// For messages.
std::string describe(const cuda::driver& driver, const device_resource& all, const cuda_division& division, const int ordinal) {
	std::uint32_t most = division.least;
	for(std::uint32_t count = most; count < division.total; count += division.granule) {
		if(size_of_part(driver, all, count) == count) most = count;
	}
	const auto share = [&](const std::uint32_t count) { return show(static_cast<double>(count) / division.total); };
	return "GPU " + std::to_string(ordinal) + " has " + std::to_string(division.total) + " multiprocessors, and the driver makes parts of "
	       + std::to_string(division.least) + " to " + std::to_string(most) + ", in steps of " + std::to_string(division.granule) + ": give a share from "
	       + share(division.least) + " to " + share(most);
}

cuda_division find_division(const cuda::driver& driver, const device_resource& all) {
	cuda_division found{all.num_multiprocessors, size_of_part(driver, all, 1), 0};
	if(found.least == 0) { throw std::runtime_error("the driver makes no part of the " + std::to_string(found.total) + " multiprocessors of this GPU"); }
	// Drivers before CUDA 13 tell the least number and the granule only so.
	const std::uint32_t next = size_of_part(driver, all, found.least + 1);
	found.granule = next > found.least ? next - found.least : found.least;
	return found;
}

cuda::green_context make_part(const cuda::driver& driver, const cuda::device device, device_resource& multiprocessors) {
	cuda::resource_description description = nullptr;
	driver.check(driver.describe_resources(&description, &multiprocessors, 1), "cuDevResourceGenerateDesc");
	cuda::green_context made = nullptr;
	driver.check(driver.green_context_create(&made, description, device, cuda::green_context_with_default_stream), "cuGreenCtxCreate");
	// Otherwise the driver takes the context of kernels in graphs for invalid.
	cuda::context converted = nullptr;
	const auto code = driver.green_context_convert(&converted, made);
	if(code != cuda::success) driver.green_context_destroy(made);
	driver.check(code, "cuCtxFromGreenCtx");
	return made;
}

} // namespace

cuda_division find_division(const cuda::driver& driver, const cuda::device device) { return find_division(driver, all_of(driver, device)); }

cuda_split split_multiprocessors(const cuda::driver& driver, const cuda::device device, const int ordinal, const double share) {
	const auto all = all_of(driver, device);
	const auto division = find_division(driver, all);
	const double wanted = share * division.total;
	const double granules = std::max(std::round((wanted - division.least) / division.granule), 0.0);
	const auto count = division.least + static_cast<std::uint32_t>(granules) * division.granule;
	if(wanted < division.least / 2.0 || count >= division.total) {
		throw std::invalid_argument("a share of " + show(share) + " rounds to " + (count >= division.total ? "all" : "none") + " of its multiprocessors. "
		                            + describe(driver, all, division, ordinal));
	}
	auto made = try_split(driver, all, count);
	if(!made.has_value() || made->share.num_multiprocessors != count) {
		throw std::invalid_argument("a share of " + show(share) + " rounds to " + std::to_string(count)
		                            + " multiprocessors, and the driver makes no such part. " + describe(driver, all, division, ordinal));
	}
	cuda_split split{nullptr, nullptr, {made->share.num_multiprocessors, made->rest.num_multiprocessors}};
	split.share = make_part(driver, device, made->share);
	try {
		split.rest = make_part(driver, device, made->rest);
	} catch(...) {
		driver.green_context_destroy(split.share);
		throw;
	}
	return split;
}

void destroy_parts(const cuda::driver& driver, const cuda_split& split) {
	driver.green_context_destroy(split.share);
	driver.green_context_destroy(split.rest);
}

} // namespace celerity
