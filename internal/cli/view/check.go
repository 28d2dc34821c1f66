package view

// Check is what `check` shows.
type Check struct {
	TypeMeta
	Items []CheckItem `json:"items"`
}

// CheckItem is one thing that was checked.
type CheckItem struct {
	// Check is what was checked: server, plugin, operator, leader, capability, apis, policies, webhook or rights.
	Check   string     `json:"check"`
	State   CheckState `json:"state"`
	Message string     `json:"message"`
}

// CheckState is the outcome of a check.
type CheckState string

// The outcomes of a check. A warning does not make the command fail.
const (
	CheckOK      CheckState = "OK"
	CheckWarning CheckState = "Warning"
	CheckFailed  CheckState = "Failed"
)

// Failed counts what has failed.
func (c *Check) Failed() (count int) {
	for _, item := range c.Items {
		if item.State == CheckFailed {
			count++
		}
	}
	return count
}
