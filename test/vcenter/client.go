package vcenter

import (
	"context"
	"fmt"
	"net/url"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
)

// EndOtherSessions ends all sessions except the client's own. A client that follows the virtual machines with a property collector has to start
// again, because the simulator's collectors may miss that a virtual machine was destroyed:
// https://github.com/vmware/govmomi/blob/v0.52.0/simulator/property_collector.go#L958
func EndOtherSessions(ctx context.Context, client *vim25.Client) error {
	sessions := session.NewManager(client)
	var manager mo.SessionManager
	err := property.DefaultCollector(client).RetrieveOne(ctx, *client.ServiceContent.SessionManager, []string{"sessionList", "currentSession"}, &manager)
	if err != nil {
		return fmt.Errorf("reading the sessions: %w", err)
	}
	for i := range manager.SessionList {
		key := manager.SessionList[i].Key
		if manager.CurrentSession != nil && key == manager.CurrentSession.Key {
			continue
		}
		if err := sessions.TerminateSession(ctx, []string{key}); err != nil {
			return fmt.Errorf("ending a session: %w", err)
		}
	}
	return nil
}

// newClient connects to a vCenter of this package, and logs in.
func newClient(ctx context.Context, at *url.URL) (*vim25.Client, error) {
	client, err := vim25.NewClient(ctx, soap.NewClient(at, true))
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", at.Host, err)
	}
	if err := session.NewManager(client).Login(ctx, url.UserPassword(Username, Password)); err != nil {
		return nil, fmt.Errorf("logging in to %s: %w", at.Host, err)
	}
	return client, nil
}
