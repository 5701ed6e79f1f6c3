use super::*;

fn page(text: &str) -> Result<Page, InvalidValue> {
    Page::of(&format!("/clusters?{text}").parse().unwrap())
}

fn pages(limit: usize) -> Vec<Vec<usize>> {
    let all = || {
        (0..10)
            .map(|n| {
                let place = ListPosition(format!("{}", n / 3).into(), format!("c-{n}").into());
                (place, n)
            })
            .collect()
    };
    let mut asked = format!("limit={limit}&fact=a%3Ab%20c");
    let mut pages = Vec::new();
    loop {
        let (part, headers) = page(&asked).unwrap().cut(all());
        pages.push(part);
        let Some(link) = headers.get(header::LINK) else {
            return pages;
        };
        let link = link.to_str().unwrap();
        let next = link.strip_prefix("</clusters?").unwrap();
        next.strip_suffix(">; rel=\"next\"")
            .unwrap()
            .clone_into(&mut asked);
        assert!(asked.contains("fact=a%3Ab%20c"), "{asked}");
    }
}

#[test]
fn pages_together_equal_the_list() {
    for limit in 1..=11 {
        let pages = pages(limit);
        assert!(pages.iter().all(|page| page.len() <= limit));
        assert_eq!(pages.concat(), (0..10).collect::<Vec<_>>());
    }
}

#[test]
fn invalid_parameters_are_rejected() {
    for bad in [
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=",
        "limit=1&limit=1",
        "cursor=x",
        "cursor=",
    ] {
        assert!(page(bad).is_err(), "{bad}");
    }
    let twice = page("fact=1&limit=2&fact=2").unwrap();
    assert_eq!(twice.query().all("fact").collect::<Vec<_>>(), ["1", "2"]);
    let words: Vec<_> = twice.words().collect();
    assert_eq!(words, [("fact", "1"), ("fact", "2")]);
}
