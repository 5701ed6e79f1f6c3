//! The contract, point by point: what clients of Lieutenant's API rely on, and what is better here, each with the tests that
//! show it. A test that is renamed or gone is missed here.

/// What is so, and the tests that fail when it is not: `file::test` of this folder, or of a neighbour.
type Line = (&'static str, &'static [&'static str]);

/// What clients rely on.
const KEEP: &[Line] = &[
    (
        "A request is judged before its sender is; but unknown fields of a PATCH are told to who is known only.",
        &["keep::a_request_is_judged_before_its_sender_is"],
    ),
    (
        "Without a bearer token it is 400 with `missing or malformed jwt`, with a wrong one 401.",
        &["keep::without_a_bearer_token_it_is_400_and_with_a_wrong_one_401"],
    ),
    (
        "Every failure is a reason of one line, with the words that clients look for; POST, PUT and compileMeta drop unknown fields.",
        &[
            "keep::every_failure_is_a_reason_of_one_line",
            "keep::a_request_is_judged_before_its_sender_is",
            "keep::unknown_fields_are_refused_on_patch_and_dropped_elsewhere",
        ],
    ),
    ("An id that is taken is 409.", &["keep::a_taken_id_is_409"]),
    (
        "A slash at the end of a path says nothing.",
        &["keep::a_slash_at_the_end_is_accepted_on_every_path"],
    ),
    (
        "Lists are sorted by id, tenant or display name, stable; odd values are 400, unknown parameters pass, an unknown tenant has no clusters.",
        &["keep::lists_are_sorted_and_filtered_as_asked_and_odd_parameters_are_400"],
    ),
    (
        "Ids get their prefix or are made up, have 63 characters at most, and the path's wins on PUT.",
        &["keep::ids_get_their_prefix_or_are_made_up"],
    ),
    (
        "PATCH refuses tenant, id and unknown fields, and changes all or nothing.",
        &[
            "keep::unknown_fields_are_refused_on_patch_and_dropped_elsewhere",
            "patch::one_bad_value_changes_nothing",
        ],
    ),
    (
        "PATCH merges facts and annotations key by key, dynamic facts at the first level.",
        &["patch::facts_and_annotations_merge_key_by_key_and_dynamic_facts_no_deeper"],
    ),
    (
        "PATCH replaces compileMeta whole, with its time in UTC, and ignores a repository's type.",
        &[
            "patch::compile_meta_is_replaced_whole",
            "patch::the_type_of_a_repository_is_not_patched",
            "keep::commodore_reads_clusters_and_tenants_and_reports_what_it_compiled",
        ],
    ),
    (
        "A deploy key is a type and base64, maybe with a line end, and is echoed; a cluster without a repository takes none.",
        &["patch::a_deploy_key_is_a_type_and_base64_and_needs_a_repository"],
    ),
    (
        "The URL of a managed repository has a group and a name.",
        &["patch::the_url_of_a_managed_repository_has_group_and_name"],
    ),
    (
        "Every cluster that is shown has gitRepo, compileMeta and displayName, whoever made it how.",
        &["keep::every_cluster_has_a_repository_a_compile_meta_and_a_name"],
    ),
    (
        "PUT makes or replaces, and leaves the dynamic facts of a cluster that is there.",
        &["keep::put_creates_or_replaces_and_leaves_dynamic_facts_alone"],
    ),
    (
        "installURL is shown while the token is valid, and the token is in no database.",
        &[
            "bootstrap::the_install_url_is_there_at_once_and_while_the_token_is_valid",
            "modules/registry::the_store_holds_no_token_in_any_form",
        ],
    ),
    (
        "Steward's manifests are six in their order, with their environment in its order.",
        &["bootstrap::the_manifests_are_six_in_their_order"],
    ),
    (
        "A bootstrap token is refused in Lieutenant's words.",
        &["bootstrap::a_bootstrap_token_is_refused_in_lieutenants_words"],
    ),
    (
        "A trusted proxy says where Steward finds the API; others do not.",
        &[
            "bootstrap::a_trusted_proxy_says_where_the_api_is",
            "bootstrap::nobody_else_says_where_the_api_is",
        ],
    ),
    (
        "Steward's one call a minute registers, reports and reads its repository.",
        &["patch::steward_reports_once_a_minute_and_reads_its_repository"],
    ),
    (
        "Commodore reads lists, clusters and tenants, and reports with an empty 204.",
        &["keep::commodore_reads_clusters_and_tenants_and_reports_what_it_compiled"],
    ),
    (
        "The root says where to log in; it, the description and the health are there for everybody.",
        &["keep::the_root_says_where_to_log_in_and_needs_no_token"],
    ),
];

/// What is better here.
const BETTER: &[Line] = &[
    (
        "A wrong token is 401.",
        &["keep::without_a_bearer_token_it_is_400_and_with_a_wrong_one_401"],
    ),
    (
        "A wrong method is 405 with the right ones.",
        &["better::a_wrong_method_is_405_with_the_right_ones"],
    ),
    (
        "A word that only begins with Bearer lets nobody in.",
        &["keep::without_a_bearer_token_it_is_400_and_with_a_wrong_one_401"],
    ),
    (
        "Nothing that is sent gives 500.",
        &["better::nothing_that_is_sent_gives_500"],
    ),
    (
        "null removes a field, a fact, an annotation.",
        &["patch::null_removes_a_field_a_fact_and_an_annotation"],
    ),
    (
        "A fact or an annotation that is no string is refused with its name.",
        &["patch::a_value_that_is_no_string_is_refused_with_the_name_of_its_key"],
    ),
    (
        "The answer to a new cluster has its installURL at once.",
        &["bootstrap::the_install_url_is_there_at_once_and_while_the_token_is_valid"],
    ),
    (
        "What was answered with 409 has written nothing.",
        &["better::a_409_has_written_nothing"],
    ),
    (
        "An installURL in a body is ignored.",
        &["better::an_install_url_in_a_body_is_ignored"],
    ),
    (
        "A managed repository keeps its URL.",
        &["patch::the_url_of_a_managed_repository_has_group_and_name"],
    ),
    (
        "An unknown tenant is refused.",
        &["better::an_unknown_tenant_is_refused"],
    ),
    (
        "A tenant with clusters goes only where all of it is meant.",
        &["better::a_tenant_with_clusters_is_deleted_only_where_all_of_it_is_meant"],
    ),
    (
        "A bootstrap token has one winner, is accepted in a header, can be made anew.",
        &[
            "bootstrap::of_two_hundred_who_come_with_one_token_one_wins",
            "bootstrap::the_token_is_accepted_in_a_header_too",
            "bootstrap::a_bootstrap_token_is_refused_in_lieutenants_words",
        ],
    ),
    (
        "Who sends many wrong tokens is limited, and a right one is let in.",
        &["bootstrap::many_wrong_bootstrap_tokens_are_slowed_down_and_a_right_one_is_let_in"],
    ),
    (
        "The inventory works; facts have time, source and history.",
        &[
            "modules/inventory::inventory_is_queried_within_the_callers_rights",
            "modules/inventory::what_is_posted_is_a_fact_if_the_caller_may_say_so",
            "modules/inventory::the_history_of_a_cluster_is_told_at_a_time_and_between_two",
            "modules/facts::facts_say_since_when_they_are_known_and_get_stale",
        ],
    ),
    (
        "Lists show what the caller may see, in pages, and not twice.",
        &[
            "modules/rights::lists_show_what_the_caller_may_see",
            "better::lists_are_told_in_pages_and_not_twice",
        ],
    ),
    (
        "An agent changes its facts, its deploy key, and nothing else.",
        &["bootstrap::stewards_token_is_good_for_its_cluster_and_nothing_else"],
    ),
];

const SOURCES: &[(&str, &str)] = &[
    ("keep", include_str!("keep.rs")),
    ("better", include_str!("better.rs")),
    ("patch", include_str!("patch.rs")),
    ("bootstrap", include_str!("bootstrap.rs")),
    ("modules/registry", include_str!("../modules/registry.rs")),
    ("modules/rights", include_str!("../modules/rights.rs")),
    ("modules/facts", include_str!("../modules/facts.rs")),
    ("modules/inventory", include_str!("../modules/inventory.rs")),
];

#[test]
fn every_line_has_its_tests() {
    for (line, tests) in KEEP.iter().chain(BETTER) {
        assert!(!tests.is_empty(), "{line}");
        for test in *tests {
            let (file, name) = test.rsplit_once("::").unwrap();
            let (_, source) = SOURCES.iter().find(|(known, _)| *known == file).unwrap();
            let is_test = source.contains(&format!("test]\nasync fn {name}("));
            assert!(is_test, "{line} {test} is gone");
        }
    }
}
