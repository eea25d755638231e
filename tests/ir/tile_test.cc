// Questions about a leaf's statements that back ends share.
#include "ir/tile.h"

#include <gtest/gtest.h>

namespace tc {
namespace {

TileLoop loop(const std::string& name, TileLoop::Kind kind, int64_t extent) {
  TileLoop result;
  result.name = name;
  result.kind = kind;
  result.extent = extent;
  return result;
}

TileStatement tile() {
  TileStatement result;
  result.statement = 0;
  result.loops = {loop("k", TileLoop::Kind::Serial, 9), loop("x", TileLoop::Kind::Unroll, 4),
                  loop("f", TileLoop::Kind::Vector, 8)};
  result.iterators["i"] = Affine::variable("o", 4) + Affine::variable("x");
  result.constraints = {Affine(10) - Affine::variable("i")};
  return result;
}

TEST(Tile, LoopsHaveNamesThatNoKernelUses) {
  const TileStatement named = with_loop_names(tile(), {"o"});
  EXPECT_EQ(named.loops[0].name, "%k");
  EXPECT_EQ(named.loops[2].name, kLaneLoop);
  EXPECT_EQ(named.iterators.at("i").str(), (Affine::variable("o", 4) + Affine::variable("%x")).str());
  EXPECT_EQ(named.constraints[0].str(),
            (Affine(10) - Affine::variable("o", 4) - Affine::variable("%x")).str());
  EXPECT_FALSE(is_fixed(named.constraints[0]));
  EXPECT_TRUE(is_fixed(Affine::variable("o") + Affine::variable("%k#3")));
}

TEST(Tile, AVectorOfOneLaneIsACopy) {
  TileStatement one = tile();
  one.loops[2].extent = 1;
  EXPECT_EQ(with_loop_names(one, {}).loops[2].kind, TileLoop::Kind::Unroll);
}

TEST(Tile, WorstCases) {
  const auto worst = worst_case(tile().constraints[0], tile(), {"o"});
  ASSERT_TRUE(worst);
  EXPECT_EQ(worst->str(), (Affine(7) - Affine::variable("o", 4)).str());  // x = 3
  EXPECT_FALSE(worst_case(Affine::variable("k") - 1, tile(), {"o"}));     // serial loops take it as a bound
}

TEST(Tile, LastTrips) {
  TileLoop open = loop("k", TileLoop::Kind::Serial, -1);
  open.symbolic_extent = Affine::variable("n");
  open.symbolic_divisor = 4;
  EXPECT_EQ(last_trip(open, {{"n", {1, 9}}}), 2);
  EXPECT_EQ(last_trip(loop("k", TileLoop::Kind::Serial, 0), {}), -1);
}

TEST(Tile, DisjointWrites) {
  const auto at = [](int64_t first, int64_t step) {
    return std::vector<Affine>{Affine(first) + Affine::variable(kLaneLoop, step)};
  };
  EXPECT_TRUE(are_disjoint({at(0, 1), at(8, 1)}, kLaneLoop, 8));
  EXPECT_FALSE(are_disjoint({at(0, 1), at(7, 1)}, kLaneLoop, 8));
  EXPECT_TRUE(are_disjoint({at(0, 2), at(7, 2)}, kLaneLoop, 8));  // odd and even
  EXPECT_TRUE(are_disjoint({at(0, 0), at(1, 0)}, "", 1));
  EXPECT_FALSE(are_disjoint({at(0, 0), at(0, 0)}, "", 1));
}

}  // namespace
}  // namespace tc
