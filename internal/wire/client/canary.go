package client

import (
	"context"
	"fmt"
	"net/http"
)

// AcceptAlert ends, for an operator, the canary's alert about the change of that audit entry. It is UnknownTarget if
// there is no such alert.
func (c *Client) AcceptAlert(ctx context.Context, change int64) error {
	return c.json(ctx, call{method: http.MethodPost, path: fmt.Sprintf("/v1/canary/%d/accept", change)}, nil, nil)
}
