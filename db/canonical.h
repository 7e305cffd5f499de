// Rows as canonical JSON text: what digests are computed over and what export writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "db/fields.h"

namespace loopwright::db {

/// `batch=4 tokens=17`, sorted by name; empty for no symbols. And back.
std::string write_bindings(const Bindings& values);
Result<Bindings> parse_bindings(std::string_view text);

/// The text whose SHA-256 is the row's digest. Defined for every alternative of AnyRow.
template <class Row>
std::string write_canonical(const Row& row);
template <class Row>
Digest compute_digest(const Row& row);
Digest compute_hard_digest(const DeviceRow& row);
/// Of an artifact: over header text, a newline, and the image.
Digest compute_artifact_digest(std::string_view header, const std::vector<std::uint8_t>& image);

/// False when a stored row's content does not give its digest. A run's digest is random; everything is fine there.
template <class Row>
bool fits_digest(const Row& row);

/// One line of an export: every field, the digest and the table. And back; a line whose content does not give its
/// digest is refused.
template <class Row>
std::string write_line(const Row& row);
Result<AnyRow> parse_line(std::string_view line);
/// Its table, when `line` is a JSON object with one; empty otherwise.
std::string read_line_table(std::string_view line);

/// Names of the fields in which two rows differ, each as `name a → b`. The digest is no field.
template <class Row>
std::vector<std::string> list_differences(const Row& a, const Row& b);

std::string encode_base64(const std::vector<std::uint8_t>& bytes);
Result<std::vector<std::uint8_t>> decode_base64(std::string_view text);

}  // namespace loopwright::db
