#include "tuner/protocol.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <thread>

namespace loopwright::tuner {
namespace {

struct Pair {
  Pair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0); }
  ~Pair() { ::close(ends[0]), ::close(ends[1]); }
  int ends[2];
};

TEST(Protocol, MessagesKeepTheirBounds) {
  Pair pair;
  ASSERT_TRUE(send_message(pair.ends[0], "{\"a\":1}"));
  ASSERT_TRUE(send_message(pair.ends[0], ""));
  std::string text;
  EXPECT_EQ(receive_message(pair.ends[1], 1000, text), Received::message);
  EXPECT_EQ(text, "{\"a\":1}");
  EXPECT_EQ(receive_message(pair.ends[1], 1000, text), Received::message);
  EXPECT_EQ(text, "");
}

TEST(Protocol, LargeMessagesPassInPieces) {
  Pair pair;
  const std::string large(3 << 20, 'x');
  std::thread sender([&] { send_message(pair.ends[0], large); });
  std::string text;
  EXPECT_EQ(receive_message(pair.ends[1], 10000, text), Received::message);
  EXPECT_EQ(text, large);
  sender.join();
}

TEST(Protocol, SilenceIsATimeoutAndAnEndIsAnEnd) {
  Pair pair;
  std::string text;
  EXPECT_EQ(receive_message(pair.ends[1], 20, text), Received::timeout);
  ASSERT_EQ(::write(pair.ends[0], "\x05\x00", 2), 2);  // half a head
  EXPECT_EQ(receive_message(pair.ends[1], 20, text), Received::timeout);
  ::shutdown(pair.ends[0], SHUT_RDWR);
  EXPECT_EQ(receive_message(pair.ends[1], 1000, text), Received::closed);
  EXPECT_FALSE(send_message(pair.ends[1], "x"));
}

TEST(Protocol, AWildLengthIsRefused) {
  Pair pair;
  ASSERT_EQ(::write(pair.ends[0], "\xff\xff\xff\xff", 4), 4);
  std::string text;
  EXPECT_EQ(receive_message(pair.ends[1], 1000, text), Received::broken);
  EXPECT_FALSE(send_message(pair.ends[0], std::string(kMaxMessageBytes + 1, 'x')));
}

TEST(Protocol, TheArenaIsSharedAndGivesMemoryBack) {
  Arena mine, theirs;
  ASSERT_TRUE(mine.create(1ull << 30));
  ASSERT_TRUE(theirs.attach(::dup(mine.descriptor())));
  std::memset(mine.at(4096), 7, 8192);
  EXPECT_EQ(*theirs.at(8000), 7);
  mine.release(4096, 8192);
  EXPECT_EQ(*theirs.at(8000), 0);
}

}  // namespace
}  // namespace loopwright::tuner
