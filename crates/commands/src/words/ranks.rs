//! Why processes cannot train together, and what to do.

fitgpt_say::sentences! {
    build_with_mpi() {
        en: "each process would train the whole model by itself; build with `cargo build --release --features mpi` (needs an MPI and libclang), or start a single process",
        zh: "每个进程都会各自训练整个模型；请用 `cargo build --release --features mpi` 编译（需要 MPI 和 libclang），或只启动一个进程",
        ja: "それぞれのプロセスが別々にモデル全体を学習してしまいます。`cargo build --release --features mpi` でビルドするか（MPI と libclang が必要）、プロセスを一つだけ起動してください",
        de: "jeder Prozess würde das ganze Modell für sich trainieren; mit `cargo build --release --features mpi` bauen (braucht ein MPI und libclang) oder nur einen Prozess starten",
    }
    make_equal() {
        en: "give every machine the same program, the same command line and config, and the same data",
        zh: "请让每台机器使用相同的程序、相同的命令行与配置，以及相同的数据",
        ja: "すべてのマシンで同じプログラム、同じコマンドラインと設定、同じデータを使ってください",
        de: "jede Maschine braucht dasselbe Programm, dieselbe Befehlszeile und Konfiguration und dieselben Daten",
    }
    /// The lanes cannot be divided evenly among the ranks.
    lanes_and_ranks(lanes, ranks) {
        en: "`lanes` {lanes} is not a multiple of the {ranks} ranks",
        zh: "`lanes` {lanes} 不是 {ranks} 个 rank 的倍数",
        ja: "`lanes` {lanes} は rank 数 {ranks} の倍数ではありません",
        de: "`lanes` {lanes} ist kein Vielfaches der {ranks} Ranks",
    }
    /// The micro-batches of a step cannot be divided evenly among the ranks.
    steps_and_ranks(accumulation, ranks) {
        en: "`gradient_accumulation_steps` {accumulation} is not a multiple of the {ranks} ranks",
        zh: "`gradient_accumulation_steps` {accumulation} 不是 {ranks} 个 rank 的倍数",
        ja: "`gradient_accumulation_steps` {accumulation} は rank 数 {ranks} の倍数ではありません",
        de: "`gradient_accumulation_steps` {accumulation} ist kein Vielfaches der {ranks} Ranks",
    }
    works(arguments) {
        en: "`{arguments}` works", zh: "`{arguments}` 可行", ja: "`{arguments}` なら動きます", de: "mit `{arguments}` geht es",
    }
    works_with_processes(count) {
        en: "`mpirun -np {count} …` works", zh: "`mpirun -np {count} …` 可行", ja: "`mpirun -np {count} …` なら動きます", de: "mit `mpirun -np {count} …` geht es",
    }
    /// Ranks without the instruction make the others wait.
    rank_emulates(rank) {
        en: "the CPU of rank {rank} has no instruction for bfloat16 products and emulates them, bit for bit but slowly; `--matmul_dtype=float32` is faster and changes the bits of the run",
        zh: "rank {rank} 的 CPU 没有 bfloat16 乘积指令，只能模拟：结果逐位相同，但很慢；`--matmul_dtype=float32` 更快，但会改变训练的逐位结果",
        ja: "rank {rank} の CPU には bfloat16 の積の命令がないため、エミュレーションします。ビット単位で同じですが低速です。`--matmul_dtype=float32` のほうが高速ですが、学習結果のビットが変わります",
        de: "die CPU von Rank {rank} hat keinen Befehl für bfloat16-Produkte und bildet ihn nach, bitgenau, aber langsam; `--matmul_dtype=float32` ist schneller und ändert die Bits des Laufs",
    }
    /// Only some ranks have the instruction, so no rank uses it.
    rank_lacks_products(rank) {
        en: "the CPU of rank {rank} has no instruction for bfloat16 products, so all ranks multiply float32 factors (`matmul_dtype`)",
        zh: "rank {rank} 的 CPU 没有 bfloat16 乘积指令，因此所有 rank 都用 float32 因子相乘（`matmul_dtype`）",
        ja: "rank {rank} の CPU には bfloat16 の積の命令がないため、すべての rank が float32 の因子で乗算します（`matmul_dtype`）",
        de: "die CPU von Rank {rank} hat keinen Befehl für bfloat16-Produkte, daher multiplizieren alle Ranks float32-Faktoren (`matmul_dtype`)",
    }
    lanes_of_checkpoint(there, here) {
        en: "the checkpoint was trained with `lanes` {there}, which is kept; `lanes` {here} is ignored",
        zh: "检查点是用 `lanes` {there} 训练的，将继续使用它；忽略 `lanes` {here}",
        ja: "チェックポイントは `lanes` {there} で学習されたのでそれを使います。`lanes` {here} は無視されます",
        de: "der Checkpoint wurde mit `lanes` {there} trainiert, dabei bleibt es; `lanes` {here} zählt nicht",
    }
}
