package view

// UninstallCheck is what `uninstall-check` shows.
type UninstallCheck struct {
	TypeMeta
	// Items are the objects that cannot be deleted without Drover.
	Items []UninstallItem `json:"items"`
}

// UninstallItem is an object with a finalizer of Drover.
type UninstallItem struct {
	// Object is its name, as resource.group/name.
	Object    string `json:"object"`
	Namespace string `json:"namespace,omitempty"`
	Finalizer string `json:"finalizer"`
	// ToDo is what a user does about it.
	ToDo string `json:"toDo"`
}
