package main

import (
	"math"
	"testing"
)

func TestFitLine(t *testing.T) {
	if base, slope := fitLine([]float64{1, 2, 4}, []float64{5, 7, 11}); math.Abs(base-3) > 1e-9 || math.Abs(slope-2) > 1e-9 {
		t.Errorf("the line is %g + %g x, want 3 + 2 x", base, slope)
	}
}

func TestPoolsOf(t *testing.T) {
	pools := poolsOf(100000)
	if len(pools) != 3 || pools[0] != (pool{partName, 1000}) || pools[1].size != largestPool || sizeOf(pools) != 100000 {
		t.Errorf("the pools are %v", pools)
	}
	if pools := poolsOf(1); len(pools) != 1 || sizeOf(pools) != 1 {
		t.Errorf("the pools are %v", pools)
	}
}
