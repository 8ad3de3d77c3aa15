{{/* Made by `python -m tools.chart` with tools/admission.py. Do not edit. */}}

{{- define "sunk-sync.annotations.variables" -}}
- name: account
  expression: >-
    'sunk.coreweave.com/account' in variables.annotations ? variables.annotations['sunk.coreweave.com/account'].trim() : ''
- name: comment
  expression: >-
    'sunk.coreweave.com/comment' in variables.annotations ? variables.annotations['sunk.coreweave.com/comment'].trim() : ''
- name: constraints
  expression: >-
    'sunk.coreweave.com/constraints' in variables.annotations ? variables.annotations['sunk.coreweave.com/constraints'].trim() : ''
- name: current_working_dir
  expression: >-
    'sunk.coreweave.com/current-working-dir' in variables.annotations ? variables.annotations['sunk.coreweave.com/current-working-dir'].trim() : ''
- name: excluded_nodes
  expression: >-
    'sunk.coreweave.com/excluded-nodes' in variables.annotations ? variables.annotations['sunk.coreweave.com/excluded-nodes'].trim() : ''
- name: exclusive
  expression: >-
    'sunk.coreweave.com/exclusive' in variables.annotations ? variables.annotations['sunk.coreweave.com/exclusive'].trim() : ''
- name: group_id
  expression: >-
    'sunk.coreweave.com/group-id' in variables.annotations ? variables.annotations['sunk.coreweave.com/group-id'].trim() : ''
- name: partition
  expression: >-
    'sunk.coreweave.com/partition' in variables.annotations ? variables.annotations['sunk.coreweave.com/partition'].trim() : ''
- name: prefer
  expression: >-
    'sunk.coreweave.com/prefer' in variables.annotations ? variables.annotations['sunk.coreweave.com/prefer'].trim() : ''
- name: priority
  expression: >-
    'sunk.coreweave.com/priority' in variables.annotations ? variables.annotations['sunk.coreweave.com/priority'].trim() : ''
- name: qos
  expression: >-
    'sunk.coreweave.com/qos' in variables.annotations ? variables.annotations['sunk.coreweave.com/qos'].trim() : ''
- name: required_nodes
  expression: >-
    'sunk.coreweave.com/required-nodes' in variables.annotations ? variables.annotations['sunk.coreweave.com/required-nodes'].trim() : ''
- name: reservation
  expression: >-
    'sunk.coreweave.com/reservation' in variables.annotations ? variables.annotations['sunk.coreweave.com/reservation'].trim() : ''
- name: timeout
  expression: >-
    'sunk.coreweave.com/timeout' in variables.annotations ? variables.annotations['sunk.coreweave.com/timeout'].trim() : ''
- name: user_id
  expression: >-
    'sunk.coreweave.com/user-id' in variables.annotations ? variables.annotations['sunk.coreweave.com/user-id'].trim() : ''
- name: is_gang
  expression: >-
    'sunk.coreweave.com/gang' in variables.annotations || 'scheduling.x-k8s.io/pod-group' in variables.labels || 'pod-group.scheduling.sigs.k8s.io' in variables.labels || 'leaderworkerset.sigs.k8s.io/group-key' in variables.labels
{{- end }}

{{- define "sunk-sync.annotations.forms" -}}
- expression: >-
    variables.account == '' || (!variables.account.contains(' ') && variables.account.matches(r'^[^\pC\p{Zl}\p{Zp}]*$') && bytes(variables.account).size() <= 1024)
  message: >-
    annotation sunk.coreweave.com/account: allowed is a name, or names with commas between and no spaces
- expression: >-
    variables.comment == '' || (variables.comment.matches(r'^([^\pC\p{Zl}\p{Zp}]|\n|\t)*$') && bytes(variables.comment).size() <= 1024)
  message: >-
    annotation sunk.coreweave.com/comment: allowed are printable characters, tabs and line ends
- expression: >-
    variables.constraints == '' || (variables.constraints.matches(r'^[^\pC\p{Zl}\p{Zp}]*$') && bytes(variables.constraints).size() <= 1024)
  message: >-
    annotation sunk.coreweave.com/constraints: allowed are printable characters
- expression: >-
    variables.current_working_dir == '' || (variables.current_working_dir.startsWith('/') && variables.current_working_dir.matches(r'^[^\pC\p{Zl}\p{Zp}]*$') && bytes(variables.current_working_dir).size() <= 4095)
  message: >-
    annotation sunk.coreweave.com/current-working-dir: allowed is an absolute path
- expression: >-
    variables.excluded_nodes == '' || (variables.excluded_nodes.matches(r'^[\s,]*([^\s\pC,\[\]]|\[[0-9]{1,18}(-[0-9]{1,18})?(,[0-9]{1,18}(-[0-9]{1,18})?)*\])+([\s,]+([^\s\pC,\[\]]|\[[0-9]{1,18}(-[0-9]{1,18})?(,[0-9]{1,18}(-[0-9]{1,18})?)*\])*)*$') && bytes(variables.excluded_nodes).size() <= 65536)
  message: >-
    annotation sunk.coreweave.com/excluded-nodes: allowed are names of Slurm nodes or a hostlist
- expression: >-
    variables.exclusive == '' || (variables.exclusive.lowerAscii() in ['none', 'ok', 'user', 'mcs', 'topo', 'true', 'false'])
  message: >-
    annotation sunk.coreweave.com/exclusive: allowed is none, ok, user, mcs, topo, true or false
- expression: >-
    variables.group_id == '' || (variables.group_id.matches(r'^[0-9]{1,12}$') && int(variables.group_id) <= 2147483646)
  message: >-
    annotation sunk.coreweave.com/group-id: allowed is a whole number from 0 to 2147483646
- expression: >-
    variables.partition == '' || (!variables.partition.contains(' ') && variables.partition.matches(r'^[^\pC\p{Zl}\p{Zp}]*$') && bytes(variables.partition).size() <= 1024)
  message: >-
    annotation sunk.coreweave.com/partition: allowed is a name, or names with commas between and no spaces
- expression: >-
    variables.prefer == '' || (variables.prefer.matches(r'^[^\pC\p{Zl}\p{Zp}]*$') && bytes(variables.prefer).size() <= 1024)
  message: >-
    annotation sunk.coreweave.com/prefer: allowed are printable characters
- expression: >-
    variables.priority == '' || (variables.priority.matches(r'^[0-9]{1,12}$') && int(variables.priority) <= 4294967293)
  message: >-
    annotation sunk.coreweave.com/priority: allowed is a whole number from 0 to 4294967293
- expression: >-
    variables.qos == '' || (!variables.qos.contains(' ') && variables.qos.matches(r'^[^\pC\p{Zl}\p{Zp}]*$') && bytes(variables.qos).size() <= 1024)
  message: >-
    annotation sunk.coreweave.com/qos: allowed is a name, or names with commas between and no spaces
- expression: >-
    variables.required_nodes == '' || (variables.required_nodes.matches(r'^[\s,]*([^\s\pC,\[\]]|\[[0-9]{1,18}(-[0-9]{1,18})?(,[0-9]{1,18}(-[0-9]{1,18})?)*\])+([\s,]+([^\s\pC,\[\]]|\[[0-9]{1,18}(-[0-9]{1,18})?(,[0-9]{1,18}(-[0-9]{1,18})?)*\])*)*$') && bytes(variables.required_nodes).size() <= 65536)
  message: >-
    annotation sunk.coreweave.com/required-nodes: allowed are names of Slurm nodes or a hostlist
- expression: >-
    variables.reservation == '' || (!variables.reservation.contains(' ') && variables.reservation.matches(r'^[^\pC\p{Zl}\p{Zp}]*$') && bytes(variables.reservation).size() <= 1024)
  message: >-
    annotation sunk.coreweave.com/reservation: allowed is a name, or names with commas between and no spaces
- expression: >-
    variables.timeout == '' || (variables.timeout.lowerAscii().matches(r'^([0-9]{1,12}|[0-9]{1,6}-[0-9]{1,2}(:[0-9]{1,2}){0,2}|[0-9]{1,6}(:[0-9]{1,2}){2}|([0-9]{1,6}d)?([0-9]{1,6}h)?([0-9]{1,8}m)?([0-9]{1,9}s)?)$') && variables.timeout.matches('[1-9]') && (!variables.timeout.matches('^[0-9]+$') || int(variables.timeout) <= 52560000))
  message: >-
    annotation sunk.coreweave.com/timeout: allowed are whole minutes above 0, or a time such as 90s, 2h, 1h30m, 02:30:00, 1-00:00:00 (at most 100 years)
- expression: >-
    variables.user_id == '' || (variables.user_id.matches(r'^[0-9]{1,12}$') && int(variables.user_id) <= 2147483646)
  message: >-
    annotation sunk.coreweave.com/user-id: allowed is a whole number from 0 to 2147483646
{{- end }}

{{- define "sunk-sync.annotations.rules" -}}
- expression: >-
    (variables.is_gang || 'true' in variables.rules['namespace-defaults']) && variables.user_id == '' || !variables.user.matches(r'^[0-9]{1,12}$') || variables.rules['users'].exists(r, r == '*' ? int(variables.user) > 0 : r.contains('-') ? int(r.split('-')[0].trim()) <= int(variables.user) && int(variables.user) <= int(r.split('-')[1].trim()) : int(r) == int(variables.user))
  messageExpression: >-
    'namespace ' + request.namespace + ' may not run jobs as user ' + variables.user + ' (annotation sunk.coreweave.com/user-id): rule ' + (int(variables.user) == 0 ? 'root' : 'users') + ' of ' + variables.row + ' in --user-policy allows ' + (variables.rules['users'].size() == 0 ? 'none' : variables.rules['users'].join(', '))
- expression: >-
    (variables.is_gang || 'true' in variables.rules['namespace-defaults']) && variables.user_id == '' || 'true' in variables.rules['namespace-defaults'] || !variables.group_id.matches(r'^[0-9]{1,12}$') || (variables.user.matches(r'^[0-9]{1,12}$') && int(variables.group_id) == int(variables.user)) || variables.group_id in variables.rules['default-group'] || variables.rules['groups'].exists(r, r == '*' ? int(variables.group_id) > 0 : r.contains('-') ? int(r.split('-')[0].trim()) <= int(variables.group_id) && int(variables.group_id) <= int(r.split('-')[1].trim()) : int(r) == int(variables.group_id))
  messageExpression: >-
    'namespace ' + request.namespace + ' may not run jobs as group ' + variables.group_id + ': rule ' + (int(variables.group_id) == 0 ? 'root' : 'groups') + ' of ' + variables.row + ' in --user-policy allows ' + (variables.rules['groups'].size() == 0 ? 'none' : variables.rules['groups'].join(', '))
- expression: >-
    variables.account == '' || '*' in variables.rules['accounts'] || variables.account.split(',').all(one, one in variables.rules['accounts']) || variables.account in variables.rules['default-account']
  messageExpression: >-
    'namespace ' + request.namespace + ' may not use account ' + variables.account + ': rule accounts of ' + variables.row + ' in --user-policy allows ' + (variables.rules['accounts'].size() == 0 ? 'none' : variables.rules['accounts'].join(', '))
- expression: >-
    variables.partition == '' || '*' in variables.rules['partitions'] || variables.partition.split(',').all(one, one in variables.rules['partitions'])
  messageExpression: >-
    'namespace ' + request.namespace + ' may not use partition ' + variables.partition + ': rule partitions of ' + variables.row + ' in --user-policy allows ' + (variables.rules['partitions'].size() == 0 ? 'none' : variables.rules['partitions'].join(', '))
- expression: >-
    variables.qos == '' || '*' in variables.rules['qos'] || variables.qos.split(',').all(one, one in variables.rules['qos'])
  messageExpression: >-
    'namespace ' + request.namespace + ' may not use qos ' + variables.qos + ': rule qos of ' + variables.row + ' in --user-policy allows ' + (variables.rules['qos'].size() == 0 ? 'none' : variables.rules['qos'].join(', '))
- expression: >-
    variables.reservation == '' || '*' in variables.rules['reservations'] || variables.reservation.split(',').all(one, one in variables.rules['reservations'])
  messageExpression: >-
    'namespace ' + request.namespace + ' may not use reservation ' + variables.reservation + ': rule reservations of ' + variables.row + ' in --user-policy allows ' + (variables.rules['reservations'].size() == 0 ? 'none' : variables.rules['reservations'].join(', '))
- expression: >-
    !variables.priority.matches(r'^[0-9]{1,12}$') || variables.rules['max-priority'].exists(most, int(variables.priority) <= int(most))
  messageExpression: >-
    'namespace ' + request.namespace + ' may not ask for priority ' + variables.priority + ': rule max-priority of ' + variables.row + ' in --user-policy allows ' + (variables.rules['max-priority'].size() == 0 ? 'none' : variables.rules['max-priority'].join(', '))
- expression: >-
    variables.exclusive.lowerAscii() in ['', 'false'] || 'true' in variables.rules['exclusive']
  messageExpression: >-
    'namespace ' + request.namespace + ' may not use annotation sunk.coreweave.com/exclusive: rule exclusive of ' + variables.row + ' in --user-policy allows ' + (variables.rules['exclusive'].size() == 0 ? 'none' : variables.rules['exclusive'].join(', '))
- expression: >-
    variables.required_nodes.lowerAscii() in [''] || 'true' in variables.rules['required-nodes']
  messageExpression: >-
    'namespace ' + request.namespace + ' may not use annotation sunk.coreweave.com/required-nodes: rule required-nodes of ' + variables.row + ' in --user-policy allows ' + (variables.rules['required-nodes'].size() == 0 ? 'none' : variables.rules['required-nodes'].join(', '))
{{- end }}

{{- define "sunk-sync.annotations.changed" -}}
['sunk.coreweave.com/account', 'sunk.coreweave.com/comment', 'sunk.coreweave.com/constraints', 'sunk.coreweave.com/current-working-dir', 'sunk.coreweave.com/excluded-nodes', 'sunk.coreweave.com/exclusive', 'sunk.coreweave.com/group-id', 'sunk.coreweave.com/partition', 'sunk.coreweave.com/prefer', 'sunk.coreweave.com/priority', 'sunk.coreweave.com/qos', 'sunk.coreweave.com/required-nodes', 'sunk.coreweave.com/reservation', 'sunk.coreweave.com/timeout', 'sunk.coreweave.com/user-id'].exists(a, (has(object.metadata.annotations) && a in object.metadata.annotations ? object.metadata.annotations[a] : '') != (has(oldObject.metadata.annotations) && a in oldObject.metadata.annotations ? oldObject.metadata.annotations[a] : ''))
{{- end }}
