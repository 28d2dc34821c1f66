// Package expectations reports whether the cache shows a write yet, before a controller decides by what the cache shows.
//
// Two writers matter. A controller's own writes reach its cache a moment after the API server has answered: Objects and Owned record those
// answers, and report what the cache does not show. The writes of the previous leader are not recorded anywhere: Barrier compares the caches
// with the API server once, after leadership is acquired and before any worker starts.
package expectations
