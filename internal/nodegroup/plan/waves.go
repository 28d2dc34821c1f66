package plan

import "slices"

// Waves returns the Nodes of the group as a roll-out reaches them: wave after wave, and in each the Nodes in their order.
func (in *Input) Waves() [][]Node {
	slices.SortFunc(in.Nodes, compareNodes)
	settings := in.settings()
	return in.waves(&settings)
}
