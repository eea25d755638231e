// Files under names that users give: whole, or not at all.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/new_file.h"

namespace tc::runtime {
namespace {

namespace fs = std::filesystem;

class NewFiles : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  // Nothing but what was asked for is there.
  void TearDown() override {
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      EXPECT_EQ(entry.path().filename().string().find(".tc-"), std::string::npos) << entry.path();
    }
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }

  // A device like one of /dev: the test's own where it may have one, since a fault would cost root the
  // machine's.
  std::string device(const std::string& name, unsigned minor) const {
    if (mknod(path(name).c_str(), S_IFCHR | 0600, makedev(1, minor)) != 0) return "/dev/" + name;
    return std::ofstream(path(name)).is_open() ? path(name) : "/dev/" + name;
  }

  // "" or why the text cannot be written there.
  static std::string put(const std::string& path, const std::string& text) {
    NewFile file;
    return file.open(path.c_str()) && file.write(text.data(), text.size()) && file.finish() ? "" : file.why();
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / "new_files";
};

TEST_F(NewFiles, AppearWhenTheyAreWhole) {
  ASSERT_EQ(put(path("a"), "old"), "");
  {
    NewFile file;
    ASSERT_TRUE(file.open(path("a").c_str())) << file.why();
    ASSERT_TRUE(file.write("new", 3));
    EXPECT_EQ(content(path("a")), "old");
  }
  EXPECT_EQ(content(path("a")), "old");  // the writer gave up
  ASSERT_EQ(put(path("a"), "new"), "");
  EXPECT_EQ(content(path("a")), "new");
}

TEST_F(NewFiles, HaveThePermissionsOfNewFiles) {
  const mode_t before = umask(027);
  ASSERT_EQ(put(path("a"), "x"), "");
  umask(before);
  struct stat state;
  ASSERT_EQ(stat(path("a").c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0640u);
}

TEST_F(NewFiles, FollowLinks) {
  fs::create_directory(folder_ / "below");
  ASSERT_EQ(put(path("below/target"), "old"), "");
  fs::create_symlink("below/link", folder_ / "link");
  fs::create_symlink("target", folder_ / "below/link");
  fs::create_symlink("below/nowhere", folder_ / "dangling");
  ASSERT_EQ(put(path("link"), "new"), "");
  EXPECT_TRUE(fs::is_symlink(path("link")) && fs::is_symlink(path("below/link")));
  EXPECT_EQ(content(path("below/target")), "new");
  ASSERT_EQ(put(path("dangling"), "made"), "");
  EXPECT_EQ(content(path("below/nowhere")), "made");
  fs::create_symlink("turn", folder_ / "round");
  fs::create_symlink("round", folder_ / "turn");
  EXPECT_EQ(put(path("round"), "x"), strerror(ELOOP));
}

TEST_F(NewFiles, LeaveWhatIsNoFile) {
  fs::create_directory(folder_ / "folder");
  EXPECT_EQ(put(path("folder"), "x"), "it is a folder");
  const int socket_file = socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un address = {AF_UNIX, "socket"};
  const fs::path before = fs::current_path();
  fs::current_path(folder_);  // paths of sockets are short
  ASSERT_EQ(bind(socket_file, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  fs::current_path(before);
  EXPECT_EQ(put(path("socket"), "x"), "it is a socket");
  close(socket_file);
  if (mknod(path("disk").c_str(), S_IFBLK | 0600, makedev(7, 0)) == 0) {  // as root
    EXPECT_EQ(put(path("disk"), "x"), "it is a device with blocks, whose contents would be lost");
  }
  EXPECT_EQ(put(path("nowhere/a"), "x"), strerror(ENOENT));
  EXPECT_EQ(put(path(std::string(PATH_MAX, 'a')), "x"), strerror(ENAMETOOLONG));
}

TEST_F(NewFiles, AreWrittenInPlaceToDevicesAndPipes) {
  const std::string null = device("null", 3), full = device("full", 7);
  EXPECT_EQ(put(null, "x"), "");
  EXPECT_EQ(put(full, "x"), strerror(ENOSPC));
  fs::create_symlink(null, folder_ / "link");
  EXPECT_EQ(put(path("link"), "x"), "");
  EXPECT_TRUE(fs::is_symlink(path("link")) && fs::is_character_file(null) && fs::is_character_file(full));
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(put(path("pipe"), "x"), "no program reads from the pipe");
  const int reader = open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_EQ(put(path("pipe"), "through"), "");
  char got[16] = "";
  EXPECT_EQ(read(reader, got, sizeof got), 7);
  EXPECT_STREQ(got, "through");
  close(reader);
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
}

TEST_F(NewFiles, OfManyThreadsAreEachWhole) {
  constexpr int kThreads = 32, kTimes = 20;
  constexpr size_t kSize = 5000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int time = 0; time < kTimes; ++time) {
        EXPECT_EQ(put(path("shared"), std::string(kSize, static_cast<char>('a' + i))), "");
        const std::string got = content(path("shared"));
        EXPECT_EQ(got, std::string(kSize, got[0]));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(NewFiles, GoWithAProgramThatIsInterrupted) {
  EXPECT_EXIT(
      {
        remove_new_file_at_signals();
        NewFile file;
        if (!file.open(path("a").c_str()) || !file.write("x", 1) || !fs::exists(file.path())) _exit(1);
        raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
  EXPECT_FALSE(fs::exists(path("a")));
}

// A process that has begun a file beside `path`, and waits; the file.
struct Writer {
  pid_t process = -1;
  std::string part;
};
Writer begin_writing(const std::string& path) {
  int ends[2];
  Writer writer;
  if (pipe(ends) != 0 || (writer.process = fork()) < 0) return writer;
  if (writer.process == 0) {
    NewFile file;
    if (!file.open(path.c_str()) || write(ends[1], file.path(), strlen(file.path())) < 0) _exit(1);
    for (;;) pause();
  }
  char part[PATH_MAX] = "";
  if (read(ends[0], part, sizeof part - 1) > 0) writer.part = part;
  close(ends[0]), close(ends[1]);
  return writer;
}
void end(const Writer& writer) {
  kill(writer.process, SIGKILL);
  waitpid(writer.process, nullptr, 0);
}

TEST_F(NewFiles, OfKilledProgramsAreRemovedByTheNextWriter) {
  const Writer killed = begin_writing(path("a")), living = begin_writing(path("a"));
  // Names like those of killed programs: what is locked is somebody's, and so are links and folders.
  end(killed);
  const std::string locked = killed.part.substr(0, killed.part.rfind('-')) + "-1.part";
  std::ofstream(locked) << "x";
  const int holder = open(locked.c_str(), O_RDONLY);
  ASSERT_EQ(flock(holder, LOCK_EX), 0);
  const std::string folder = killed.part.substr(0, killed.part.rfind('-')) + "-2.part";
  fs::create_directory(folder);
  ASSERT_TRUE(fs::exists(killed.part) && fs::exists(living.part));
  EXPECT_EQ(put(path("b"), "x"), "");
  EXPECT_FALSE(fs::exists(killed.part));
  EXPECT_TRUE(fs::exists(living.part) && fs::exists(locked) && fs::exists(folder));
  end(living);
  close(holder);
  fs::remove(folder);
  EXPECT_EQ(put(path("b"), "y"), "");
  EXPECT_EQ(content(path("b")), "y");  // and nothing else is left: see TearDown
}

}  // namespace
}  // namespace tc::runtime
