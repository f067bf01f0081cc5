use holdfast_sim::{options::Options, stepper, tape::Tape};
use std::collections::BTreeMap;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let from: u64 = args[1].parse().unwrap();
    let to: u64 = args[2].parse().unwrap();
    let mutant = args.get(3).cloned().filter(|m| m != "-");
    let began = std::time::Instant::now();
    let mut goals: BTreeMap<&str, u64> = BTreeMap::new();
    let mut eval: BTreeMap<String, u64> = BTreeMap::new();
    let mut failed: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let (mut w, mut e, mut c, mut f, mut st) = (0, 0, 0, 0, 0);
    for seed in from..to {
        let mut o = Options::draw(seed);
        o.mutant = mutant.clone();
        if let Ok(s) = std::env::var("SWEEP") {
            o.sweep_interval_ms = s.parse().unwrap();
        }
        let out = std::panic::catch_unwind(|| stepper::run(&o, Tape::from_seed(seed)));
        let out = match out {
            Ok(o) => o,
            Err(_) => {
                failed.entry("panic".into()).or_default().push(seed);
                continue;
            }
        };
        w += out.writes;
        e += out.eoses;
        c += out.competing_edits;
        f += out.faults.values().sum::<u64>();
        st += out.steps;
        for (k, v) in &out.goals {
            *goals.entry(k).or_default() += v;
        }
        for (k, v) in &out.verdict {
            *eval.entry(k.clone()).or_default() += v.evaluated;
            if !v.violations.is_empty() {
                failed.entry(k.clone()).or_default().push(seed);
                if to - from < 4 {
                    for x in v.violations.iter().take(3) {
                        println!("{seed} {k} {} line {}: {}", x.rule, x.line, x.story);
                    }
                }
            }
        }
        if let Some(b) = &out.broken {
            failed
                .entry(format!("broken {}", b.chars().take(70).collect::<String>()))
                .or_default()
                .push(seed);
            if to - from < 4 {
                println!("{seed} BROKEN {b}");
            }
        }
        if to - from == 1 {
            std::fs::write("/tmp/hist.jsonl", &out.history).unwrap();
            println!("{o:?}");
        }
    }
    let n = (to - from) as f64;
    println!(
        "writes {} eose {} competing {} faults {} steps {} per seed; {} seeds/s",
        w as f64 / n,
        e as f64 / n,
        c as f64 / n,
        f as f64 / n,
        st as f64 / n,
        n / began.elapsed().as_secs_f64()
    );
    println!("goals {goals:#?}\neval {eval:?}");
    for (k, v) in failed {
        println!("FAILED {k}: {} e.g. {:?}", v.len(), &v[..v.len().min(8)]);
    }
}
