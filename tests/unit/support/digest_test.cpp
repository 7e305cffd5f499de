#include "src/support/digest.h"

#include <gtest/gtest.h>

namespace loopwright {
namespace {

TEST(Sha256, agrees_with_the_published_vectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, the_processors_instructions_and_plain_arithmetic_agree) {
  std::string bytes;
  for (std::size_t n = 0; n < 300; ++n) {
    EXPECT_EQ(sha256_hex(bytes), sha256_hex_plain(bytes)) << n;
    bytes += static_cast<char>(n * 37 + 11);
  }
  EXPECT_EQ(sha256_hex_plain("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, every_length_around_a_block_differs) {
  std::string last;
  for (std::size_t n = 50; n < 140; ++n) {
    const std::string now = sha256_hex(std::string(n, 'x'));
    EXPECT_EQ(now.size(), 64u);
    EXPECT_NE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace loopwright
