// SPDX-License-Identifier: Apache-2.0
// Made by page/types.mjs of `gabion api describe`.
export interface paths {
    "/api/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["audit_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cluster": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["cluster_show"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cluster/encrypt-links": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["encrypt_links"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cluster/kind": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["cluster_kind"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cluster/rebalance": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["rebalance"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cluster/rebuild-reserve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["rebuild_reserve"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cluster/repair-delay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["cluster_set"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cluster/resync-limit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["resync_limit"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/cluster/upgrade": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["cluster_upgrade"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/deleted-volumes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["deleted_volume_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/deleted-volumes/{volume}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["volume_purge"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/deleted-volumes/{volume}/undelete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["volume_undelete"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/domains": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["domain_list"];
        put?: never;
        post: operations["domain_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/domains/assignments": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["domain_assign"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/domains/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["domain_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["event_stream"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/groups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["group_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["health_show"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/health/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["health_history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/health/{check}/silence": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["health_silence"];
        post?: never;
        delete: operations["health_unsilence"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/hosts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["host_join"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/hosts/{host}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["host_remove"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/hosts/{host}/maintenance": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["maintenance_check"];
        put: operations["maintenance_enter"];
        post?: never;
        delete: operations["maintenance_exit"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/invitations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["host_invite"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/orphans": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["orphan_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/orphans/{volume}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["orphan_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/orphans/{volume}/adopt": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["orphan_adopt"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/performance/{kind}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["performance_top"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/performance/{kind}/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["performance_show"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/policies": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["policy_list"];
        put?: never;
        post: operations["policy_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/policies/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["policy_delete"];
        options?: never;
        head?: never;
        patch: operations["policy_edit"];
        trace?: never;
    };
    "/api/v1/policies/{name}/check": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["policy_check"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/policies/{name}/what-if": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["policy_what_if"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/receivers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["notify_list"];
        put?: never;
        post: operations["notify_add"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/receivers/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["notify_show"];
        put?: never;
        post?: never;
        delete: operations["notify_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/receivers/{name}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["notify_test"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/repairs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["repair_now"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/resyncs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["resync_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["session_show"];
        put?: never;
        post: operations["session_create"];
        delete: operations["session_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/shards": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["shard_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/shards/{shard}/directory-backups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["directory_backups"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/shards/{shard}/directory-restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["directory_restore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/shards/{shard}/groups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["group_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/shards/{shard}/groups/{group}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["group_show"];
        put?: never;
        post?: never;
        delete: operations["group_remove"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/shards/{shard}/groups/{group}/close": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["group_close"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/shards/{shard}/groups/{group}/devices": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["group_extend"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/shards/{shard}/groups/{group}/open": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["group_open"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/shards/{shard}/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/shards/{shard}/scrub": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["scrub_status"];
        put?: never;
        post: operations["scrub_start"];
        delete: operations["scrub_pause"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["status"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["token_list"];
        put?: never;
        post: operations["token_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["token_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["user_list"];
        put?: never;
        post: operations["user_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete: operations["user_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{name}/code": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["user_code"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{name}/password": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["user_password"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/users/{name}/role": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["user_role"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["volume_list"];
        put?: never;
        post: operations["volume_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["volume_show"];
        put?: never;
        post?: never;
        delete: operations["volume_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/connections": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["volume_connections"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/home": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["volume_keep"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/labels": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch: operations["volume_label"];
        trace?: never;
    };
    "/api/v1/volumes/{name}/moves": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["volume_move"];
        delete: operations["volume_stay"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/name": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["volume_rename"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/placement": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get: operations["volume_explain"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/policy": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["volume_set_policy"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/read-cache": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["volume_cache"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/recovery": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post: operations["volume_recover"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/redundancy": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["volume_redundancy"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/reserve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["volume_change"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/size": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["volume_grow"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/writer": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["volume_take_over"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/volumes/{name}/writers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put: operations["volume_writers"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        AccessRole: "viewer" | "operator" | "administrator";
        Affinity: "none" | "host";
        AuditEntry: {
            caller: string;
            command?: Record<string, never> | null;
            from: string;
            number: number;
            problem?: string | null;
            request: string;
            shard?: string | null;
            status: number;
            time: number;
        };
        BTreeMap: {
            [key: string]: string;
        };
        BackupReport: {
            bytes: number;
            damage?: string | null;
            group: string;
            host: string;
            number: number;
            taken: number;
            volumes?: number | null;
        };
        CachedReport: {
            asked_bytes: number;
            held_bytes: number;
            host: string;
            kept_bytes: number;
        };
        CheckReport: {
            actual?: components["schemas"]["CheckState"] | null;
            evidence: string[];
            group: string;
            id: string;
            means: string;
            mend: string[];
            silenced_because?: string | null;
            silenced_until?: string | null;
            since: string;
            state: components["schemas"]["CheckState"];
            summary: string;
            title: string;
        };
        CheckState: "green" | "unknown" | "silenced" | "yellow" | "red";
        ClassReport: {
            is_slow: boolean;
            max_us: number;
            median_us: number;
            operations: number;
            usual_us?: number | null;
        };
        ClusterKind: "all-flash" | "hybrid";
        ClusterReport: {
            encrypt_links?: boolean;
            kind?: components["schemas"]["ClusterKind"];
            level?: number;
            not_rebuilt?: string | null;
            rebalances?: boolean;
            rebuild_reserve?: boolean;
            repair_delay_seconds?: number | null;
            resync_bytes_per_second?: number | null;
        };
        ComplianceReport: {
            state: components["schemas"]["ComplianceState"];
            why?: string[];
        };
        ComplianceState: "compliant" | "changing" | "not-compliant";
        ComponentReport: {
            domain?: string | null;
            group?: string;
            host: string;
            object?: number;
            replaces?: string | null;
            resync_bytes_left: number;
            state: string;
            why?: string | null;
            writes_waiting?: number;
        };
        Connections: "shared" | "exclusive";
        DeviceMedium: "ssd" | "hdd" | "file" | "unknown";
        DeviceReport: {
            kind: components["schemas"]["DeviceMedium"];
            latency?: components["schemas"]["LatencyReport"] | null;
            model?: string | null;
            path: string;
            role: components["schemas"]["Role"];
            size_bytes: number;
            space?: components["schemas"]["SpaceReport"] | null;
            state: string;
            used_bytes: number;
            written_bytes?: number;
        };
        DomainReport: {
            depth: number;
            hosts: string[];
            name: string;
            within?: string | null;
        };
        DomainsReport: {
            close_volumes?: string[];
            domains: components["schemas"]["DomainReport"][];
            move_bytes: number;
            to_move: number;
            without: string[];
            without_place: number;
        };
        EffectReport: {
            at_most: boolean;
            cached_bytes?: number;
            copied_bytes: number;
            freed_bytes: number;
            reserved_bytes: number;
            volume: string;
        };
        Follower: {
            name: string;
            version: number;
        };
        GroupConfig: {
            cache: string;
            capacity: string[];
            kind?: components["schemas"]["ClusterKind"] | null;
        };
        GroupDetail: components["schemas"]["GroupReport"] & {
            components: components["schemas"]["HeldReport"][];
        };
        GroupReport: {
            appended_bytes?: number;
            attention?: string[];
            buffer_bytes?: number;
            buffer_fill: number;
            capacity_bytes: number;
            devices?: components["schemas"]["DeviceReport"][];
            direct_bytes?: number;
            health?: components["schemas"]["Health"];
            host: string;
            id: string;
            is_open: boolean;
            limited_by?: string;
            mapped_bytes?: number;
            oldest_entry_seconds?: number | null;
            oldest_unverified_seconds?: number | null;
            read_cache?: components["schemas"]["ReadCacheReport"] | null;
            recovery_ms: number;
            requests?: components["schemas"]["RequestsReport"];
            rotten_log_blocks?: number;
            scrub_progress?: number | null;
            state: string;
            unaligned_writes?: number;
            used_bytes: number;
            writes_waiting?: number;
        };
        Health: "green" | "yellow" | "red";
        HealthChange: {
            check: string;
            evidence?: string[];
            from: components["schemas"]["CheckState"];
            number: number;
            time: string;
            to: components["schemas"]["CheckState"];
        };
        HealthHistory: {
            items: components["schemas"]["HealthChange"][];
            next?: string | null;
            total: number;
        };
        HealthReport: {
            checks: components["schemas"]["CheckReport"][];
            state: components["schemas"]["Health"];
        };
        HeldReport: {
            component: string;
            device?: string;
            object: string;
            reserve_bytes: number;
            size_bytes: number;
            used_bytes: number;
            volume?: string | null;
        };
        HomeReport: {
            elsewhere?: number;
            host: string;
            not_moved?: string | null;
        };
        HostLevel: {
            host: string;
            level?: number | null;
        };
        HostReport: {
            domains?: string[];
            host?: string | null;
            level?: number | null;
            maintenance?: components["schemas"]["MaintenanceReport"] | null;
            name: string;
            peer: string;
            silent_seconds?: number | null;
            state: components["schemas"]["HostState"];
        };
        HostState: "up" | "not answering" | "down";
        InviteReport: {
            expires: number;
            invitation: string;
        };
        IoLimits: {
            bytes_per_second?: number | null;
            iops?: number | null;
        };
        JoinReport: {
            ca: string;
            ca_key: string;
            directory: string[];
        };
        LatencyReport: {
            durable: components["schemas"]["ClassReport"];
            health: string;
            in_flight: number;
            oldest_seconds?: number | null;
            reads: components["schemas"]["ClassReport"];
            writes: components["schemas"]["ClassReport"];
        };
        LayoutReport: {
            hosts: components["schemas"]["PlaceReport"][];
            parts: number[];
        };
        LimitedReport: {
            host: string;
            requests: number;
            waited_ms: number;
        };
        LinksReport: {
            bytes_received: number;
            made: number;
            messages_received: number;
            messages_sent: number;
            refused: number;
            silent: number;
            waiting_bytes: number;
        };
        MailTls: "starttls" | "tls" | "none";
        MaintenanceMode: "ensure-accessibility" | "full-evacuation" | "none";
        MaintenanceReport: {
            copies: number;
            entered: boolean;
            free_bytes: number;
            host: string;
            mode: components["schemas"]["MaintenanceMode"];
            move_bytes: number;
            obstacles?: string[];
            only: number;
            ready: boolean;
            to_delete: number;
            to_move: number;
            under_way: number;
            used_bytes?: number | null;
            volumes?: components["schemas"]["VolumeWithoutHost"][];
            without_place: number;
        };
        MemoryPart: {
            budget_bytes: number;
            most_bytes?: number | null;
            name: components["schemas"]["MemoryUse"];
            used_bytes?: number | null;
        };
        MemoryReport: {
            host: string;
            machine_bytes: number;
            parts: components["schemas"]["MemoryPart"][];
            total_bytes: number;
        };
        MemoryUse: "checksum-pages" | "write-buffers" | "chunk-maps" | "read-caches" | "under-way" | "traffic" | "process" | "left";
        MetricsReport: {
            all_traffic: components["schemas"]["OperationReport"][];
            left_out: number;
            links: components["schemas"]["LinksReport"];
            not_rebuilt?: string | null;
            owned: components["schemas"]["OwnedVolume"][];
            resync: components["schemas"]["ResyncTotals"];
            scrubs: components["schemas"]["ScrubReport"][];
            stages: components["schemas"]["StageTotal"][];
            status: components["schemas"]["StatusReport"];
            traffic: components["schemas"]["TrafficReport"][];
            volumes: components["schemas"]["VolumeTally"];
        };
        MoveReport: {
            begun: components["schemas"]["MovedCopy"][];
            refused: string[];
            under_way: number;
            volume: string;
        };
        MovedCopy: {
            object: number;
            to?: string | null;
        };
        NewCodeReport: {
            code: string;
            code_expires?: number | null;
            created: number;
            has_password: boolean;
            name: string;
            role: components["schemas"]["AccessRole"];
            sessions: number;
        };
        NewSessionReport: {
            expires?: number | null;
            is_user: boolean;
            lacks_password: boolean;
            name: string;
            role: components["schemas"]["AccessRole"];
            token: string;
        };
        NewTokenReport: {
            created: number;
            expires: number;
            name: string;
            role: components["schemas"]["AccessRole"];
            token: string;
        };
        NotFollowing: {
            volume: string;
            why: string;
        };
        NotRepaired: {
            volume: string;
            why: string;
        };
        NoticeLevel: "yellow" | "red";
        NotifyTestReport: {
            answer: string;
            id: string;
            name: string;
        };
        OperationKind: "read" | "write" | "zero" | "discard" | "flush";
        OperationPoint: {
            bytes: number;
            bytes_per_second: number;
            failed: number;
            latencies: number[];
            mean_us?: number | null;
            p50_us?: number | null;
            p95_us?: number | null;
            p999_us?: number | null;
            p99_us?: number | null;
            per_second: number;
            requests: number;
            took_us: number;
        };
        OperationReport: {
            bytes: number;
            failed: number;
            latencies: number[];
            operation: components["schemas"]["OperationKind"];
            took_us: number;
        };
        OrphanReport: {
            component: string;
            durable: string;
            ftt?: number | null;
            given_up?: number | null;
            group: string;
            host: string;
            index?: number | null;
            is_damaged: boolean;
            is_empty: boolean;
            object: string;
            objects?: number | null;
            since: number;
            size_bytes: number;
            term: number;
            used_bytes: number;
            volume?: string | null;
            volume_bytes?: number | null;
            volume_id?: string | null;
            why: string;
        };
        OwnedVolume: {
            health: components["schemas"]["Health"];
            resync_bytes_left: number;
            size_bytes: number;
            volume: string;
        };
        PerformanceKind: "cluster" | "host" | "shard" | "volume" | "group" | "device";
        PerformancePoint: {
            appended_bytes_per_second?: number | null;
            at: number;
            buffer_fill?: number | null;
            cache_hits?: number | null;
            clients?: number | null;
            covered_ms: number;
            cpu_us_per_request?: number | null;
            cpus?: number | null;
            destaged_bytes_per_second?: number | null;
            in_flight?: number | null;
            limited_per_second?: number | null;
            link_bytes_per_second?: number | null;
            link_messages_per_second?: number | null;
            link_waiting_bytes?: number | null;
            others?: components["schemas"]["OperationPoint"] | null;
            queue_depth?: number | null;
            reads?: components["schemas"]["OperationPoint"] | null;
            resync_bytes_per_second?: number | null;
            resync_left_bytes?: number | null;
            writes?: components["schemas"]["OperationPoint"] | null;
            writes_waiting?: number | null;
            written_bytes_per_second?: number | null;
        };
        PerformanceReport: {
            all: components["schemas"]["PerformancePoint"];
            every_seconds: number;
            from: number;
            kind: components["schemas"]["PerformanceKind"];
            name: string;
            points: components["schemas"]["PerformancePoint"][];
            resolution_seconds: number;
            to: number;
        };
        PerformanceRow: {
            name: string;
            point: components["schemas"]["PerformancePoint"];
        };
        PerformanceTop: {
            from: number;
            items: components["schemas"]["PerformanceRow"][];
            kind: components["schemas"]["PerformanceKind"];
            left_out: number;
            to: number;
            total: number;
        };
        PlaceKind: "copy" | "too-close" | "next" | "able" | "not";
        PlaceReport: {
            domains: string[];
            host: string;
            place: components["schemas"]["PlaceKind"];
            room_bytes?: number | null;
            why: string;
        };
        PlacementReport: {
            copies: number;
            kept_on?: string | null;
            layouts: components["schemas"]["LayoutReport"][];
            more_parts?: number;
            volume: string;
        };
        PolicyCheckReport: {
            effects: components["schemas"]["EffectReport"][];
            impossible?: string | null;
            policy: components["schemas"]["PolicyReport"];
            room_bytes?: number;
        };
        PolicyEditReport: {
            changed: string[];
            policy: components["schemas"]["PolicyReport"];
            refused: components["schemas"]["NotFollowing"][];
        };
        PolicyReport: {
            affinity?: components["schemas"]["Affinity"];
            cache_percent?: number;
            force?: boolean;
            ftt: number;
            limits?: components["schemas"]["IoLimits"];
            name: string;
            repair_delay: components["schemas"]["RepairDelay"];
            reserve_percent: number;
            stripe_width?: number;
            version: number;
            volumes: components["schemas"]["Follower"][];
        };
        PolicyRules: {
            affinity?: components["schemas"]["Affinity"] | null;
            bytes_per_second?: components["schemas"]["RateLimit"] | null;
            cache_percent?: number | null;
            force?: boolean | null;
            ftt?: number | null;
            iops?: components["schemas"]["RateLimit"] | null;
            repair_delay?: components["schemas"]["RepairDelay"] | null;
            reserve_percent?: number | null;
            stripe_width?: number | null;
        };
        Problem: {
            detail: string;
            status: number;
            title: string;
            type: string;
        };
        RateLimit: "none" | {
            at: number;
        };
        ReadCacheReport: {
            asked_bytes?: number;
            bypassed_bytes: number;
            capacity_bytes?: number;
            filled_bytes?: number;
            header_bytes?: number;
            hits: number;
            kept_bytes?: number;
            memory_bytes?: number;
            misses: number;
            rotten_blocks: number;
            size_bytes: number;
            updated_bytes?: number;
            used_bytes: number;
            written_per_read?: number | null;
        };
        ReceiverReport: {
            created: number;
            from_state: components["schemas"]["NoticeLevel"];
            groups: string[];
            has_secret: boolean;
            is_in_clear: boolean;
            kind: string;
            name: string;
            open: number;
            remind_seconds?: number | null;
            target: string;
            told_at?: number | null;
            trouble?: string | null;
            trouble_since?: number | null;
        };
        ReceiverTrouble: {
            since: number;
            why: string;
        };
        ReceiverWay: {
            ca?: string | null;
            kind: "webhook";
            secret?: components["schemas"]["SecretText"] | null;
            url: components["schemas"]["SecretText"];
        } | {
            address: string;
            ca?: string | null;
            from: string;
            kind: "email";
            password?: components["schemas"]["SecretText"] | null;
            smtp: string;
            tls: components["schemas"]["MailTls"];
            user?: string | null;
        } | {
            address?: string | null;
            kind: "syslog";
            tcp?: boolean;
        };
        RemovalReport: {
            copies: number;
            host: string;
        };
        RepairDelay: "cluster" | "never" | {
            seconds: number;
        };
        RepairReport: {
            begun: components["schemas"]["RepairedCopy"][];
            refused: components["schemas"]["NotRepaired"][];
        };
        RepairedCopy: {
            object: number;
            to: string;
            volume: string;
        };
        RequestsReport: {
            blocks: number;
            commits: number;
            direct: number;
            flushes: number;
            heads: number;
            log_read: number;
            map_pages: number;
            merged: number;
            pages_read: number;
            pages_written: number;
            read_back: number;
            records: number;
            rows: number;
        };
        RestoreReport: {
            group: string;
            host: string;
            number: number;
            records: number;
            taken: number;
            volumes: number;
        };
        ResyncReason: "returns" | {
            moves: components["schemas"]["ResyncReasonMoves"];
        } | {
            repairs: components["schemas"]["ResyncReasonRepairs"];
        } | "one-more";
        ResyncReasonMoves: {
            from: string;
        };
        ResyncReasonRepairs: {
            from: string;
        };
        ResyncReport: {
            by: string;
            bytes_copied: number;
            bytes_left: number;
            bytes_per_second: number;
            host: string;
            object: number;
            reason: components["schemas"]["ResyncReason"];
            seconds: number;
            seconds_left?: number | null;
            volume: string;
            waits?: string | null;
            writes_waiting: number;
        };
        ResyncTotals: {
            bytes_left: number;
            copied_bytes: number;
            copying: number;
            waiting: number;
        };
        Role: "cache" | "capacity";
        ScrubReport: {
            bad_blocks: number;
            bytes_per_second: number;
            device: string;
            host: string;
            last_pass_seconds?: number | null;
            last_pass_seconds_ago?: number | null;
            next_pass_seconds?: number | null;
            oldest_unverified_seconds?: number | null;
            progress?: number | null;
            read_errors: number;
            repaired_blocks: number;
            state: string;
            unrepaired_blocks: number;
            verified_blocks: number;
        };
        SecretText: string;
        SessionReport: {
            expires?: number | null;
            is_user: boolean;
            lacks_password: boolean;
            name: string;
            role: components["schemas"]["AccessRole"];
        };
        SpaceReport: {
            allocated_bytes: number;
            free_bytes: number;
            freeing_bytes: number;
            metadata_bytes: number;
            promised_bytes: number;
            reserved_bytes: number;
            unusable_bytes: number;
        };
        StageReport: {
            longest_us: number;
            mean_us: number;
            measured: number;
            median_us: number;
            p99_us: number;
            passed: number;
            stage: string;
        };
        StageTotal: {
            measured: number;
            passed: number;
            stage: string;
            took_us: number;
        };
        StalePart: {
            from: string;
            given_up: string[];
            part: number;
            was_returning: boolean;
        };
        StaleReport: {
            is_done: boolean;
            old: components["schemas"]["StalePart"][];
            parts: number;
            volume: string;
        };
        StatusReport: {
            alarms?: string[];
            backups?: string | null;
            directory: boolean;
            groups: components["schemas"]["GroupReport"][];
            health: components["schemas"]["Health"];
            host: string;
            hosts: components["schemas"]["HostReport"][];
            level?: number | null;
            memory?: components["schemas"]["MemoryReport"][];
            removed?: string[];
            resyncs?: components["schemas"]["ResyncReport"][];
            trash?: components["schemas"]["TrashedReport"][];
            turns?: components["schemas"]["TurnsReport"][];
            volumes: components["schemas"]["VolumeReport"][];
            writes?: components["schemas"]["WritesReport"][];
        };
        TokenReport: {
            created: number;
            expires: number;
            name: string;
            role: components["schemas"]["AccessRole"];
        };
        ToldCheck: {
            check: string;
            is_flapping?: boolean;
            level?: components["schemas"]["NoticeLevel"] | null;
            number: number;
            times: number[];
        };
        TrafficReport: {
            clients: number;
            limited_ms: number;
            limited_requests: number;
            operations: components["schemas"]["OperationReport"][];
            volume: string;
        };
        TrashedReport: {
            deleted: number;
            deleted_seconds_ago: number;
            goes_in_seconds: number;
            id: string;
            name: string;
            size_bytes: number;
        };
        TurnsReport: {
            host: string;
            long: number;
            longest_ms: number;
            longest_seconds_ago?: number | null;
            longest_task?: string | null;
        };
        UpgradeReport: {
            from: number;
            hosts: components["schemas"]["HostLevel"][];
            to: number;
        };
        UserReport: {
            code_expires?: number | null;
            created: number;
            has_password: boolean;
            name: string;
            role: components["schemas"]["AccessRole"];
            sessions: number;
        };
        VolumePolicy: {
            limits?: components["schemas"]["IoLimits"];
            name: string;
            newest?: number | null;
            repair_delay: components["schemas"]["RepairDelay"];
            version: number;
        };
        VolumeReport: {
            cache_percent?: number;
            cached?: components["schemas"]["CachedReport"][];
            clients: number;
            compliance?: components["schemas"]["ComplianceReport"];
            components: components["schemas"]["ComponentReport"][];
            connections?: components["schemas"]["Connections"];
            copied_in_seconds?: number | null;
            ftt: number;
            health: components["schemas"]["Health"];
            home?: components["schemas"]["HomeReport"] | null;
            labels?: components["schemas"]["BTreeMap"];
            limited?: components["schemas"]["LimitedReport"][];
            name: string;
            nbd: string[];
            not_repaired?: string | null;
            note?: string | null;
            otherwise_striped_bytes?: number;
            owner?: string | null;
            policy?: components["schemas"]["VolumePolicy"] | null;
            reduced_seconds?: number | null;
            repair_in_seconds?: number | null;
            reserve_percent?: number;
            size_bytes: number;
            stripe_width?: number;
            term: number;
            writer?: components["schemas"]["WriterReport"];
        };
        VolumeTally: {
            deleted: number;
            green: number;
            red: number;
            yellow: number;
        };
        VolumeWithoutHost: {
            asked: number;
            copies: number;
            left: number;
            to_move: number;
            volume?: string | null;
        };
        WriterReport: {
            epoch: number;
            host?: string | null;
            waits_for?: string[];
            writers: components["schemas"]["Writers"];
        };
        Writers: "any" | "one";
        WritesReport: {
            host: string;
            stages: components["schemas"]["StageReport"][];
        };
    };
    responses: {
        Problem: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: {
        IdempotencyKey: string;
    };
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    audit_list: {
        parameters: {
            query?: {
                limit?: number;
                before?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditEntry"][];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    cluster_show: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClusterReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    encrypt_links: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    on: boolean;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClusterReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    cluster_kind: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    kind: components["schemas"]["ClusterKind"];
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClusterReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    rebalance: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    on: boolean;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClusterReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    rebuild_reserve: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    on: boolean;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClusterReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    cluster_set: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    repair_delay_seconds?: number | null;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClusterReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    resync_limit: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    bytes_per_second?: number | null;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClusterReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    cluster_upgrade: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    check?: boolean;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UpgradeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    deleted_volume_list: {
        parameters: {
            query?: {
                name?: string;
                limit?: number;
                after?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        items: components["schemas"]["TrashedReport"][];
                        next: string | null;
                        total: number;
                    };
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_purge: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": null;
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_undelete: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    name?: string | null;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    domain_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DomainsReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    domain_create: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    name: string;
                    within?: string | null;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DomainsReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    domain_assign: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    check?: boolean;
                    domain?: string | null;
                    hosts: string[];
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DomainsReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    domain_delete: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DomainsReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    event_stream: {
        parameters: {
            query?: never;
            header?: {
                "last-event-id"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    group_list: {
        parameters: {
            query?: {
                host?: string;
                health?: string;
                limit?: number;
                after?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        items: components["schemas"]["GroupReport"][];
                        next: string | null;
                        total: number;
                    };
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    health_show: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HealthReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    health_history: {
        parameters: {
            query?: {
                after?: string | null;
                limit?: number | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["HealthHistory"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    health_silence: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                check: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    for_seconds: number;
                    reason?: string;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    health_unsilence: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                check: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    host_join: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    invitation: string;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JoinReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    host_remove: {
        parameters: {
            query?: {
                lost?: boolean;
            };
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                host: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RemovalReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    maintenance_check: {
        parameters: {
            query?: {
                mode?: components["schemas"]["MaintenanceMode"] | null;
            };
            header?: never;
            path: {
                host: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MaintenanceReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    maintenance_enter: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                host: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    mode: components["schemas"]["MaintenanceMode"];
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MaintenanceReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    maintenance_exit: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                host: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MaintenanceReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    host_invite: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    seconds: number;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["InviteReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    orphan_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OrphanReport"][];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    orphan_delete: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": null;
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    orphan_adopt: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    force?: boolean;
                    name?: string | null;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    performance_top: {
        parameters: {
            query?: {
                limit?: number | null;
                seconds?: number | null;
            };
            header?: never;
            path: {
                kind: components["schemas"]["PerformanceKind"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PerformanceTop"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    performance_show: {
        parameters: {
            query?: {
                from?: number | null;
                points?: number | null;
                to?: number | null;
            };
            header?: never;
            path: {
                kind: components["schemas"]["PerformanceKind"];
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PerformanceReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    policy_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyReport"][];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    policy_create: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    name: string;
                    rules: components["schemas"]["PolicyRules"];
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    policy_delete: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    policy_edit: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    rules: components["schemas"]["PolicyRules"];
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyEditReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    policy_check: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    rules: components["schemas"]["PolicyRules"];
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyCheckReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    policy_what_if: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    volumes: string[];
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PolicyCheckReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    notify_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReceiverReport"][];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    notify_add: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    from_state?: components["schemas"]["NoticeLevel"] | null;
                    groups?: string[];
                    name: string;
                    remind_seconds?: number | null;
                    way: components["schemas"]["ReceiverWay"];
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReceiverReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    notify_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReceiverReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    notify_delete: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReceiverReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    notify_test: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": Record<string, never>;
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NotifyTestReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    repair_now: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    volume?: string | null;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RepairReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    resync_list: {
        parameters: {
            query?: {
                host?: string;
                volume?: string;
                limit?: number;
                after?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        items: components["schemas"]["ResyncReport"][];
                        next: string | null;
                        total: number;
                    };
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    session_show: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    session_create: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    code?: string | null;
                    password?: string | null;
                    user?: string | null;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewSessionReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    session_delete: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": null;
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    shard_list: {
        parameters: {
            query?: {
                host?: string;
                state?: string;
                limit?: number;
                after?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        items: components["schemas"]["HostReport"][];
                        next: string | null;
                        total: number;
                    };
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    directory_backups: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                shard: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BackupReport"][];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    directory_restore: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                shard: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    number?: number | null;
                    replace?: boolean;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RestoreReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    group_create: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                shard: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    cache: string;
                    capacity: string[];
                    create_bytes?: number | null;
                    ignore_device_kind?: boolean;
                    kind?: components["schemas"]["ClusterKind"] | null;
                    wipe?: boolean;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GroupConfig"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    group_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                shard: string;
                group: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GroupDetail"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    group_remove: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                shard: string;
                group: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GroupConfig"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    group_close: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                shard: string;
                group: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    stop_volumes?: boolean;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GroupConfig"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    group_extend: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                shard: string;
                group: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    create_bytes?: number | null;
                    device: string;
                    ignore_device_kind?: boolean;
                    wipe?: boolean;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GroupConfig"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    group_open: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                shard: string;
                group: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    devices?: components["schemas"]["GroupConfig"] | null;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GroupConfig"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                shard: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MetricsReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    scrub_status: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                shard: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScrubReport"][];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    scrub_start: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                shard: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    bytes_per_second?: number | null;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScrubReport"][];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    scrub_pause: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                shard: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScrubReport"][];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    status: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StatusReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    token_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TokenReport"][];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    token_create: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    name: string;
                    role: components["schemas"]["AccessRole"];
                    seconds: number;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewTokenReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    token_delete: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TokenReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    user_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserReport"][];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    user_create: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    name: string;
                    role: components["schemas"]["AccessRole"];
                    seconds: number;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewCodeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    user_delete: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    user_code: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    seconds: number;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NewCodeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    user_password: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    password: string;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    user_role: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    role: components["schemas"]["AccessRole"];
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_list: {
        parameters: {
            query?: {
                name?: string;
                health?: string;
                policy?: string;
                host?: string;
                label?: string;
                compliance?: string;
                limit?: number;
                after?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        items: components["schemas"]["VolumeReport"][];
                        next: string | null;
                        total: number;
                    };
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_create: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    cache_percent?: number;
                    force?: boolean;
                    ftt: number;
                    labels?: components["schemas"]["BTreeMap"];
                    name: string;
                    on?: string | null;
                    policy?: string | null;
                    reserve_percent?: number;
                    size_bytes: number;
                    stripe_width?: number;
                    writers?: components["schemas"]["Writers"] | null;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_show: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_delete: {
        parameters: {
            query?: {
                for_good?: boolean;
            };
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": null;
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_connections: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    connections: components["schemas"]["Connections"];
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_keep: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    host?: string | null;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_label: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    remove?: string[];
                    set?: components["schemas"]["BTreeMap"];
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_move: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    from: string;
                    to?: string | null;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MoveReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_stay: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MoveReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_rename: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    new: string;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_explain: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlacementReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_set_policy: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    policy?: string | null;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_cache: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    cache_percent: number;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_recover: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    check: boolean;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StaleReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_redundancy: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    force?: boolean;
                    ftt: number;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_change: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    reserve_percent: number;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_grow: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    size_bytes: number;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_take_over: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    host: string;
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
    volume_writers: {
        parameters: {
            query?: never;
            header?: {
                "idempotency-key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    writers: components["schemas"]["Writers"];
                };
            };
        };
        responses: {
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["VolumeReport"];
                };
            };
            "4XX": components["responses"]["Problem"];
            "5XX": components["responses"]["Problem"];
        };
    };
}
